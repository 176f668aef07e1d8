package kopftest_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

const archiveCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: archives.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Archive, plural: archives, singular: archive}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer}}}
          status:
            type: object
            properties:
              phase: {type: string}
              open: {type: object, x-kubernetes-preserve-unknown-fields: true}
              nodes: {type: array, items: {type: object, properties: {name: {type: string}}}}
`

var archiveGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Archive"}

// archive has fields that its CRD does not have.
type archive struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              archiveSpec   `json:"spec"`
	Status            archiveStatus `json:"status"`
}

type archiveSpec struct {
	Size  int    `json:"size,omitempty"`
	Color string `json:"color,omitempty"`
}

type archiveStatus struct {
	Phase   string            `json:"phase,omitempty"`
	Unknown string            `json:"unknown,omitempty"`
	Empty   map[string]string `json:"empty"`
	Nodes   []archiveNode     `json:"nodes,omitempty"`
}

type archiveNode struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
}

func (a *archive) DeepCopyObject() runtime.Object {
	out := *a
	a.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Nodes = slices.Clone(a.Status.Nodes)
	return &out
}

type archiveList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []archive `json:"items"`
}

func (l *archiveList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*archive))
	}
	return &out
}

// droppedFieldLogs runs an operator on two archives and returns its log lines about dropped fields.
func droppedFieldLogs(t *testing.T, resource func() kopf.Option) (lines []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, []byte(archiveCRD), 0o600); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(archiveGVK, &archive{})
	scheme.AddKnownTypeWithName(archiveGVK.GroupVersion().WithKind("ArchiveList"), &archiveList{})
	metav1.AddToGroupVersion(scheme, archiveGVK.GroupVersion())
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		log := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "dropped") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		one := &archive{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		two := &archive{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}}
		cluster := kopftest.Memory(t, kopftest.Types(scheme), kopftest.CRDs(path), kopftest.Objects(one, two))
		operator := cluster.RunManager(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, resource()) },
			func(options *manager.Options) { options.Logger = log })
		<-time.After(time.Minute)
		operator.Stop(t)
	})
	return lines
}

func TestDroppedFields_AreLoggedOnce(t *testing.T) {
	type raw = *unstructured.Unstructured
	type typed = *archive
	set := func(value any, path ...string) kopf.Handler[raw] {
		return func(_ context.Context, req *kopf.Request[raw]) error {
			return unstructured.SetNestedField(req.Object.Object, value, path...)
		}
	}
	result := func(_ context.Context, req *kopf.Request[raw]) error {
		req.SetResult(map[string]any{"address": "10.0.0.1"})
		return nil
	}
	typedResult := func(_ context.Context, req *kopf.Request[typed]) error {
		req.SetResult("done")
		return nil
	}
	flushed := func(ctx context.Context, req *kopf.Request[raw]) error {
		if err := unstructured.SetNestedField(req.Object.Object, "x", "status", "unknown"); err != nil {
			return err
		}
		return req.Flush(ctx)
	}
	newUnstructured := func(add func(r *kopf.Resource[raw])) func() kopf.Option {
		return func() kopf.Option {
			r := kopf.For(kopf.Unstructured(archiveGVK))
			add(r)
			return r
		}
	}
	typedOf := func(add func(r *kopf.Resource[typed])) func() kopf.Option {
		return func() kopf.Option {
			r := kopf.For(&archive{})
			add(r)
			return r
		}
	}
	for name, test := range map[string]struct {
		resource func() kopf.Option
		want     []string // handler and field of each line, in any order
	}{
		"a status field": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("create", set("x", "status", "unknown"))
		}), []string{"create status.unknown"}},
		"an unknown map": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("create", set(map[string]any{"a": "b", "c": "d"}, "status", "unknown"))
		}), []string{"create status.unknown"}},
		"a field in a list": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("create", set([]any{map[string]any{"name": "a", "zone": "b"}}, "status", "nodes"))
		}), []string{"create status.nodes[].zone"}},
		"a result": {newUnstructured(func(r *kopf.Resource[raw]) { r.OnCreate("create", result) }), []string{"create status.create"}},
		"two handlers": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("one", set("x", "status", "first")).OnCreate("two", set("x", "status", "second")).OnCreate("three", set("x", "status", "phase"))
		}), []string{"one status.first", "two status.second"}},
		"a field that another handler removes": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("one", set("x", "status", "unknown")).OnCreate("two", func(_ context.Context, req *kopf.Request[raw]) error {
				unstructured.RemoveNestedField(req.Object.Object, "status", "unknown")
				return nil
			})
		}), nil},
		"a flushed field": {newUnstructured(func(r *kopf.Resource[raw]) { r.OnCreate("create", flushed) }), []string{"create status.unknown"}},
		"a daemon": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.Daemon("daemon", daemons.Daemon{}, set("x", "status", "unknown"))
		}), []string{"daemon status.unknown"}},
		"repeated results of a timer": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.Timer("timer", daemons.Timer{Interval: 10 * time.Second}, result)
		}), []string{"timer status.timer"}},
		"a flush by a daemon": {newUnstructured(func(r *kopf.Resource[raw]) { r.Daemon("daemon", daemons.Daemon{}, flushed) }), []string{"daemon status.unknown"}},
		"OnReconcile": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnReconcile("level", set("x", "status", "unknown"))
		}), []string{"level status.unknown"}},
		"a spec field": {newUnstructured(func(r *kopf.Resource[raw]) { r.OnCreate("create", set("red", "spec", "color")) }), []string{"create spec.color"}},
		"fields of a Go type": {typedOf(func(r *kopf.Resource[typed]) {
			r.OnCreate("create", func(_ context.Context, req *kopf.Request[typed]) error {
				req.Object.Status.Phase, req.Object.Status.Unknown = "x", "x"
				req.Object.Status.Nodes = []archiveNode{{Name: "a", Zone: "b"}}
				return nil
			})
		}), []string{"create status.nodes[].zone", "create status.unknown"}},
		"a typed result":            {typedOf(func(r *kopf.Resource[typed]) { r.OnCreate("create", typedResult) }), []string{"create status.create"}},
		"a typed result of a timer": {typedOf(func(r *kopf.Resource[typed]) { r.Timer("timer", daemons.Timer{Interval: time.Hour}, typedResult) }), []string{"timer status.timer"}},
		"a null": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("create", set(map[string]any{"open": map[string]any{"stored": nil}, "phase": nil, "nothing": nil}, "status"))
		}), []string{"create status.nothing", "create status.phase"}},
		"stored fields": {newUnstructured(func(r *kopf.Resource[raw]) {
			r.OnCreate("create", func(_ context.Context, req *kopf.Request[raw]) error {
				req.Object.SetLabels(map[string]string{"tier": "gold"})
				req.Object.Object["spec"] = map[string]any{"size": int64(3)}
				req.Object.Object["status"] = map[string]any{
					"phase": "Up", "open": map[string]any{"any": "thing"}, "nodes": []any{map[string]any{"name": "a"}}, "empty": map[string]any{},
				}
				return nil
			})
		}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lines := droppedFieldLogs(t, test.resource)
			wanted := make([]any, 0, len(test.want)) // in any order, because the operator handles both archives in parallel
			for _, want := range test.want {
				handler, field, _ := strings.Cut(want, " ")
				wanted = append(wanted, And(
					ContainSubstring(`"handler"="`+handler+`"`), ContainSubstring(`"field"="`+field+`"`),
					ContainSubstring(`"resource"="archives.example.com"`), ContainSubstring("x-kubernetes-preserve-unknown-fields")))
			}
			g.Expect(lines).To(ConsistOf(wanted...))
		})
	}
}

var _ client.Object = (*archive)(nil)
