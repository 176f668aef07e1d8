package kopftest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func TestStop_DuringEventsOfMetadataOnlyKinds(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			c := kopftest.Memory(t)
			o := c.Run(t, kopf.For(kopf.Metadata(corev1.SchemeGroupVersion.WithKind("ConfigMap"))).
				OnEvent("observe", func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil }))
			o.RunUntilQuiet(t)
			for i := range 5 {
				c.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("one-", i)}})
			}
			o.Stop(t) // the watch still delivers the last events
		})
	}
}
