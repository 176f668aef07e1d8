package watching_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

func TestNamespacedCache_GetInformerAfterTheEndOfTheCache(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c, err := watching.NewNamespacedCache(&rest.Config{Host: "http://127.0.0.1:1"}, cache.Options{Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Start(ended); err != nil {
		t.Fatal(err)
	}
	_, err = c.GetInformer(t.Context(), &corev1.ConfigMap{})
	if want := "waiting until the cache of ConfigMap has synced: the cache has stopped"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error = %v, want %q", err, want)
	}
}
