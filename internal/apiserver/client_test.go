package apiserver_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

func newClient(t *testing.T, s *apiserver.Server) client.WithWatch {
	t.Helper()
	c, err := client.NewWithWatch(&rest.Config{Host: "http://in-memory", Transport: s, QPS: -1}, client.Options{Scheme: clientgoscheme.Scheme})
	must(t, err)
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// Typed clients send protobuf and read JSON.
func TestClient_Typed(t *testing.T) {
	c := newClient(t, apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...))
	ctx := t.Context()
	one := configMap("one")
	one.Data, one.Finalizers = map[string]string{"a": "1"}, []string{"example.com/x"}
	must(t, c.Create(ctx, one))
	if one.UID == "" || one.ResourceVersion == "" || one.CreationTimestamp.IsZero() {
		t.Errorf("metadata of the created object: %v, want a uid, a resourceVersion and a creationTimestamp", one.ObjectMeta)
	}
	one.Data["b"] = "2"
	must(t, c.Update(ctx, one))
	stale := one.DeepCopy()
	must(t, c.Patch(ctx, one, client.StrategicMergeFrom(configMap("one").DeepCopy())))
	must(t, c.Patch(ctx, one, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"c":"3"}}`))))
	if err := c.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("update of a stale object: %v, want a conflict", err)
	}
	must(t, c.Delete(ctx, one, client.Preconditions{UID: &one.UID}))
	must(t, c.Get(ctx, client.ObjectKeyFromObject(one), one))
	if one.DeletionTimestamp == nil {
		t.Error("deletionTimestamp of the object is nil, want a time")
	}
	one.Finalizers = nil
	must(t, c.Update(ctx, one))
	if err := c.Get(ctx, client.ObjectKeyFromObject(one), one); !apierrors.IsNotFound(err) {
		t.Errorf("get after removing the finalizer: %v, want not found", err)
	}
}

func TestClient_Apply(t *testing.T) {
	c := newClient(t, apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...))
	ctx := t.Context()
	must(t, c.Apply(ctx, corev1ac.ConfigMap("one", "ns").WithData(map[string]string{"a": "1"}), client.FieldOwner("me")))
	err := c.Apply(ctx, corev1ac.ConfigMap("one", "ns").WithData(map[string]string{"a": "2"}), client.FieldOwner("you"))
	if !apierrors.IsConflict(err) {
		t.Errorf("apply of a field of another manager: %v, want a conflict", err)
	}
	must(t, c.Apply(ctx, corev1ac.ConfigMap("one", "ns").WithData(map[string]string{"a": "2"}), client.FieldOwner("you"), client.ForceOwnership))
	must(t, c.Apply(ctx, corev1ac.ConfigMap("one", "ns"), client.FieldOwner("me")))
	one := configMap("one")
	must(t, c.Get(ctx, client.ObjectKeyFromObject(one), one))
	if diff := cmp.Diff(map[string]string{"a": "2"}, one.Data); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetadataOnly(t *testing.T) {
	c := newClient(t, apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...))
	ctx := t.Context()
	must(t, c.Create(ctx, configMap("one")))
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	must(t, c.List(ctx, list))
	if len(list.Items) != 1 || list.Items[0].Name != "one" {
		t.Fatalf("list contains %v, want only the config map one", list)
	}
	must(t, c.Patch(ctx, &list.Items[0], client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`))))
	if list.Items[0].Labels["x"] != "y" {
		t.Error("response to the patch lacks the label")
	}
}

// A watch waits in virtual time, even if its server was created outside of the bubble. The watch ends after its timeout.
func TestWatch(t *testing.T) {
	s := apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)
	c := newClient(t, s)
	must(t, c.Create(t.Context(), configMap("one")))
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w, err := c.Watch(ctx, &corev1.ConfigMapList{}, &client.ListOptions{Raw: &metav1.ListOptions{TimeoutSeconds: new(int64(3600))}})
		must(t, err)
		began := time.Now()
		if e := <-w.ResultChan(); e.Type != "ADDED" {
			t.Errorf("first event %v, want ADDED", e)
		}
		go func() {
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time of the bubble
			must(t, c.Create(ctx, configMap("two")))
		}()
		if e := <-w.ResultChan(); e.Type != "ADDED" || time.Since(began) != time.Minute {
			t.Errorf("second event %v after %s, want ADDED after 1m0s", e, time.Since(began))
		}
		if _, more := <-w.ResultChan(); more || time.Since(began) != time.Hour {
			t.Errorf("the watch ended after %s (more events: %t), want its end after 1h0m0s", time.Since(began), more)
		}
		stop()
	})
}

// The same requests create the same objects in each run.
func TestServer_IsDeterministic(t *testing.T) {
	run := func(t *testing.T) (out []map[string]any) {
		synctest.Test(t, func(t *testing.T) {
			s := apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...)
			c := newClient(t, s)
			for range 3 {
				must(t, c.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "some-"}}))
			}
			out = s.All()
		})
		return out
	}
	first := run(t)
	if diff := cmp.Diff(first, run(t)); diff != "" || len(first) != 3 {
		t.Errorf("%d entries, want 3; difference between two runs (-first +second):\n%s", len(first), diff)
	}
}
