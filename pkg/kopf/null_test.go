package kopf_test

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

const lampCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Lamp, plural: lamps, singular: lamp}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            default: {}
            properties:
              auto: {type: boolean, default: true, nullable: true}
              fixed: {type: boolean, default: true}
              omitted: {type: boolean, default: true}
              plan: {type: object, properties: {auto: {type: boolean, default: true, nullable: true}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
`

var lampGVK = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Lamp"}

type lampPlan struct {
	Auto *bool `json:"auto"`
}

type lampSpec struct {
	Auto    *bool     `json:"auto"`
	Fixed   *bool     `json:"fixed"`
	Omitted *bool     `json:"omitted,omitempty"`
	Plan    *lampPlan `json:"plan,omitempty"`
}

type lamp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              lampSpec `json:"spec"`
	Status            struct {
		Phase *string `json:"phase"`
	} `json:"status"`
}

func (l *lamp) DeepCopyObject() runtime.Object {
	out := *l
	l.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if l.Spec.Plan != nil {
		out.Spec.Plan = new(*l.Spec.Plan)
	}
	return &out
}

type lampList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []lamp `json:"items"`
}

func (l *lampList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*lamp))
	}
	return &out
}

// Handlers can store null in fields that allow it, although null removes a field in a merge patch. In a result, null removes the key, as in kopf.
func TestNull_IsStored(t *testing.T) {
	type raw = *unstructured.Unstructured
	sets := func(value any, path ...string) kopf.Handler[raw] {
		return func(_ context.Context, req *kopf.Request[raw]) error {
			return unstructured.SetNestedField(req.Object.Object, value, path...)
		}
	}
	typed := func(change func(l *lamp)) kopf.Option {
		return kopf.For(&lamp{}).OnCreate("create", func(_ context.Context, req *kopf.Request[*lamp]) error {
			change(req.Object)
			return nil
		})
	}
	untyped := func() *kopf.Resource[raw] { return kopf.For(kopf.Unstructured(lampGVK)) }
	none := map[string]any{"a": nil}
	for name, test := range map[string]struct {
		resource kopf.Option
		path     string
		want     any
		log      string
	}{
		"a field of a Go type":       {typed(func(l *lamp) { l.Spec.Auto = nil }), "spec.auto", nil, ""},
		"a field of a new struct":    {typed(func(l *lamp) { l.Spec.Plan = &lampPlan{} }), "spec.plan", map[string]any{"auto": nil}, ""},
		"a field of the status":      {typed(func(l *lamp) { l.Status.Phase = nil }), "status.phase", nil, ""},
		"a field with a default":     {typed(func(l *lamp) { l.Spec.Fixed = nil }), "spec.fixed", true, "spec.fixed"},
		"a removed field":            {typed(func(l *lamp) { l.Spec.Omitted = nil }), "spec.omitted", true, "spec.omitted"},
		"without a Go type":          {untyped().OnCreate("create", sets(nil, "spec", "auto")), "spec.auto", nil, ""},
		"a new map":                  {untyped().OnCreate("create", sets(none, "spec", "free")), "spec.free", none, ""},
		"a map in the status":        {untyped().OnCreate("create", sets(none, "status", "x")), "status.x", none, ""},
		"a list":                     {untyped().OnCreate("create", sets([]any{nil, none}, "spec", "free", "list")), "spec.free.list", []any{nil, none}, ""},
		"a field that is not stored": {untyped().OnCreate("create", sets(nil, "spec", "plan")), "spec.plan", "absent", "spec.plan"},
		"a reconcile handler":        {untyped().OnReconcile("reconcile", sets(nil, "spec", "auto")), "spec.auto", nil, ""},
		"a timer":                    {untyped().Timer("timer", daemons.Timer{Interval: time.Minute}, sets(none, "spec", "free")), "spec.free", none, ""},
		"a timer with a default":     {untyped().Timer("timer", daemons.Timer{Interval: time.Minute}, sets(nil, "spec", "fixed")), "spec.fixed", true, "spec.fixed"},
		"a daemon":                   {untyped().Daemon("daemon", daemons.Daemon{}, sets(nil, "spec", "auto")), "spec.auto", nil, ""},
		"an event handler":           {untyped().OnEvent("event", sets(nil, "spec", "auto"), kopf.WriteChanges()), "spec.auto", nil, ""},
		"a flush": {untyped().Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[raw]) error {
			if err := unstructured.SetNestedField(req.Object.Object, none, "status", "x"); err != nil {
				return err
			}
			if err := req.Flush(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}), "status.x", none, ""},
		"a result, without its nulls": {untyped().OnCreate("create", func(_ context.Context, req *kopf.Request[raw]) error {
			req.SetResult(none)
			return nil
		}), "status.create", map[string]any{}, ""},
		"a result of a handler of a Go type, without its nulls": {kopf.For(&lamp{}).OnCreate("create", func(_ context.Context, req *kopf.Request[*lamp]) error {
			req.SetResult(none)
			return nil
		}), "status.create", map[string]any{}, ""},
		"a result of a timer, without its nulls": {untyped().Timer("timer", daemons.Timer{Interval: time.Minute}, func(_ context.Context, req *kopf.Request[raw]) error {
			req.SetResult(none)
			return nil
		}), "status.timer", map[string]any{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "crd.yaml")
			if err := os.WriteFile(path, []byte(lampCRD), 0o600); err != nil {
				t.Fatal(err)
			}
			scheme := runtime.NewScheme()
			scheme.AddKnownTypeWithName(lampGVK, &lamp{})
			scheme.AddKnownTypeWithName(lampGVK.GroupVersion().WithKind("LampList"), &lampList{})
			metav1.AddToGroupVersion(scheme, lampGVK.GroupVersion())
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var lines []string
				logger := funcr.New(func(_, line string) {
					mu.Lock()
					defer mu.Unlock()
					if strings.Contains(line, "The API server has ") {
						lines = append(lines, line)
					}
				}, funcr.Options{})
				one := &unstructured.Unstructured{Object: map[string]any{
					"metadata": map[string]any{"namespace": "default", "name": "one"}, "status": map[string]any{"phase": "Up"},
				}}
				one.SetGroupVersionKind(lampGVK)
				cluster := kopftest.Memory(t, kopftest.Types(scheme), kopftest.CRDs(path), kopftest.Objects(one))
				operator := cluster.RunManager(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, test.resource) },
					func(options *manager.Options) { options.Logger = logger })
				<-time.After(10 * time.Minute)
				first := one.DeepCopy()
				cluster.Get(t, first)
				var got any = first.Object
				for key := range strings.SplitSeq(test.path, ".") {
					fields, _ := got.(map[string]any)
					var ok bool
					if got, ok = fields[key]; !ok {
						got = "absent"
					}
				}
				if !reflect.DeepEqual(got, test.want) {
					t.Errorf("%s is %v, want %v; the object is %v", test.path, got, test.want, first.Object)
				}
				<-time.After(time.Hour)
				last := one.DeepCopy()
				cluster.Get(t, last)
				if first.GetResourceVersion() != last.GetResourceVersion() {
					t.Errorf("the object changes again: %v", last.Object)
				}
				operator.Stop(t)
				mu.Lock()
				defer mu.Unlock()
				if test.log == "" && len(lines) > 0 || test.log != "" && (len(lines) != 1 || !strings.Contains(lines[0], `"field"="`+test.log+`"`)) {
					t.Errorf("logs %q, want one about %q", lines, test.log)
				}
				patches := slices.DeleteFunc(operator.Writes(), func(w kopftest.Write) bool { return w.PatchType != "application/json-patch+json" })
				for _, w := range patches {
					if paths := pathsOf(w.Body); !slices.Contains(paths, "/metadata/resourceVersion") || !slices.Contains(paths, "/metadata/uid") {
						t.Errorf("the JSON patch lacks a precondition: %v", paths)
					}
				}
			})
		})
	}
}

// pathsOf returns the paths of the operations of a JSON patch.
func pathsOf(body any) (paths []string) {
	operations, _ := body.([]any)
	for _, o := range operations {
		fields, _ := o.(map[string]any)
		path, _ := fields["path"].(string)
		paths = append(paths, path)
	}
	return paths
}
