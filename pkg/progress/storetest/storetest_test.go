package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress/storetest"
)

var objects atomic.Int64

func newConfigMap() client.Object {
	name := fmt.Sprintf("object-%d", objects.Add(1))
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
}

func newUnstructured() client.Object {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Database"}}
	name := fmt.Sprintf("object-%d", objects.Add(1))
	obj.SetName(name)
	obj.SetUID(types.UID("uid-" + name))
	return obj
}

func TestStore(t *testing.T) {
	for name, newStore := range map[string]func() progress.Store{
		"Smart":         progress.Smart,
		"Annotations":   func() progress.Store { return progress.Annotations("example.com") },
		"AnnotationsV2": func() progress.Store { return progress.AnnotationsV2("") },
		"Status":        func() progress.Store { return progress.Status("") },
		"Multi":         func() progress.Store { return progress.Multi(progress.Annotations("example.com"), progress.Smart()) },
		"InMemory":      progress.InMemory,
		"WithHistory":   func() progress.Store { return progress.WithHistory(progress.Smart(), 3) },
		"ByHandler": func() progress.Store {
			return progress.ByHandler(progress.Smart(), map[string]progress.Store{
				"create": progress.InMemory(), "delete": progress.Annotations("example.com"), "grow/spec.size": progress.AnnotationsV2("example.org"),
			})
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Store(t, newStore, newUnstructured) })
	}
}

func TestRemote_SideObjectsInMemory(t *testing.T) { testSideObjects(t, kopftest.Memory(t)) }

func TestRemote_SideObjectsOnAPIServer(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs a control plane")
	}
	cluster := kopftest.Environment(t)
	testSideObjects(t, cluster)

	// An operator with side objects.
	remote := func(mgr manager.Manager) kopf.Option {
		return kopf.WithRemote(&progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Secrets: true})
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "one", Labels: map[string]string{"handled": "yes"}}}
	cluster.Create(t, secret)
	run := func(want ...string) {
		t.Helper()
		var calls []string
		handle := func(_ context.Context, req *kopf.Request[*corev1.Secret]) error {
			calls = append(calls, string(req.Reason))
			if req.Attempt.Number == 0 {
				return kopf.Temporary(errors.New("not yet"), 100*time.Millisecond)
			}
			return nil
		}
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, remote(mgr), kopf.For(&corev1.Secret{}).
				On("all", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}, handle, kopf.Label("handled")))
		})
		operator.RunUntilQuiet(t)
		operator.Stop(t)
		if !slices.Equal(calls, want) {
			t.Errorf("calls = %q, want %q", calls, want)
		}
	}
	run("create", "create")
	run()
	kopftest.Edit(t, cluster, secret, func(obj *corev1.Secret) { obj.Data = map[string][]byte{"key": []byte("value")} })
	run("update", "update")
	cluster.Get(t, secret)
	if len(secret.Annotations) > 0 {
		t.Errorf("annotations = %v, want none", secret.Annotations)
	}
	cluster.Delete(t, secret)
	run("delete", "delete")
}

func testSideObjects(t *testing.T, cluster *kopftest.Cluster) {
	t.Helper()
	for name, remote := range map[string]*progress.SideObjects{
		"ConfigMaps": {Client: cluster.Client, Reader: cluster.Client},
		"Secrets":    {Client: cluster.Client, Reader: cluster.Client, Prefix: "secret-progress", Secrets: true},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Remote(t, remote, func(*testing.T) client.Object { return newConfigMap() })
		})
	}
}
