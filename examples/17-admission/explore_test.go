package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/17-admission/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The bucket has its URL under every fault. An in-memory cluster does not call the admission handlers, so the test sets the defaults itself.
func TestExplore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
			Operator: func() []kopf.Option { return operator("localhost", 9443) },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newBucket()) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newBucket(), func(bucket *v1.Bucket) { bucket.Spec.SizeGiB = 20 })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newBucket()) },
			},
		}
	}, kopftest.WithMaxPlans(10))
}

func newBucket() *v1.Bucket {
	return &v1.Bucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pictures"},
		Spec:       v1.BucketSpec{SizeGiB: 10, Region: "mumbai"},
	}
}
