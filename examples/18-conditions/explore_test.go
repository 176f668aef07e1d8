package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// The conditions are the same after every fault, including the conditions that the handler fill writes while it runs.
func TestExplore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kopftest.Explore(t, func() kopftest.Scenario {
		return kopftest.Scenario{
			Given:    kopftest.Given{Scheme: scheme, CRDs: []string{"config/crd"}},
			Operator: func() []kopf.Option { return []kopf.Option{buckets()} },
			Steps: []func(testing.TB, *kopftest.Cluster){
				func(t testing.TB, c *kopftest.Cluster) { c.Create(t, newBucket()) },
				func(t testing.TB, c *kopftest.Cluster) {
					kopftest.Edit(t, c, newBucket(), func(bucket *v1.Bucket) { bucket.Spec.SizeGiB = 2000 })
				},
				func(t testing.TB, c *kopftest.Cluster) { c.Delete(t, newBucket()) },
			},
		}
	}, kopftest.WithMaxPlans(10))
}

func newBucket() *v1.Bucket {
	return &v1.Bucket{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pictures"},
		Spec:       v1.BucketSpec{Store: "attic", SizeGiB: 10},
	}
}
