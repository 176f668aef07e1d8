package kopf_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// notes collects calls of handlers of several kinds.
type notes struct {
	mu    sync.Mutex
	calls []string
}

func (n *notes) add(call string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls = append(n.calls, call)
}

func (n *notes) sorted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.calls))
}

// declare returns the function of ForKinds that notes each creation. The handler reads its object with its client.
func (n *notes) declare(kind metav1.APIResource) kopf.Option {
	gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	return kopf.For(kopf.Metadata(gvk)).OnCreate("create", func(ctx context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
		n.add(kind.Kind + " " + req.Object.Name)
		again := kopf.Metadata(gvk)
		return req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), again)
	}).OnDelete("delete", func(_ context.Context, req *kopf.Request[*metav1.PartialObjectMetadata]) error {
		n.add("deleted " + kind.Kind + " " + req.Object.Name)
		return nil
	})
}

// SEL-06, SEL-07: kinds are selected by patterns and functions. A declaration by For comes first.
func TestForKinds(t *testing.T) {
	for name, test := range map[string]struct {
		options func(n *notes) []kopf.Option
		want    []string
	}{
		"patterns": {func(n *notes) []kopf.Option {
			return []kopf.Option{kopf.ForKinds(kopf.Kinds("configmap", "secrets", "nothing"), n.declare)}
		}, []string{"ConfigMap one", "Secret key"}},
		"a function": {func(n *notes) []kopf.Option {
			return []kopf.Option{kopf.ForKinds(kopf.KindsFunc(func(kind metav1.APIResource) bool {
				if kind.Kind == "Pod" {
					panic("the kind is not selected")
				}
				return kind.Kind == "Secret"
			}), n.declare)}
		}, []string{"Secret key"}},
		"several declarations": {func(n *notes) []kopf.Option {
			return []kopf.Option{
				kopf.ForKinds(kopf.Kinds("secret"), n.declare),
				kopf.ForKinds(kopf.Kinds("Secret"), func(metav1.APIResource) kopf.Option { panic("the first declaration applies") }),
				kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
					n.add("For " + req.Object.Name)
					return nil
				}),
				kopf.ForKinds(kopf.Kinds("configmaps"), n.declare),
			}
		}, []string{"For one", "Secret key"}},
		"an invalid declaration": {func(n *notes) []kopf.Option {
			return []kopf.Option{kopf.ForKinds(kopf.Kinds("configmaps", "secrets", "pods"), func(kind metav1.APIResource) kopf.Option {
				switch kind.Kind {
				case "ConfigMap":
					return kopf.WithStuckAfter(time.Hour)
				case "Pod":
					panic("no declaration")
				}
				return n.declare(kind)
			})}
		}, []string{"Secret key"}},
		"WhenServed of a served kind": {func(n *notes) []kopf.Option {
			return []kopf.Option{kopf.For(&corev1.Secret{}, kopf.WhenServed()).OnCreate("create", func(ctx context.Context, req *kopf.Request[*corev1.Secret]) error {
				n.add("Secret " + req.Object.Name)
				return req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &corev1.Secret{})
			}), kopf.For(kopf.Metadata(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Missing"}), kopf.WhenServed()).
				OnCreate("create", func(context.Context, *kopf.Request[*metav1.PartialObjectMetadata]) error { return nil })}
		}, []string{"Secret key"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &notes{}
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"), newSecret("key")))
				operator := cluster.Run(t, test.options(n)...)
				operator.RunUntilQuiet(t)
				if got := n.sorted(); !slices.Equal(got, test.want) {
					t.Errorf("calls = %q, want %q", got, test.want)
				}
				operator.Stop(t)
				operator = cluster.Run(t, test.options(n)...)
				operator.RunUntilQuiet(t)
				if got := n.sorted(); !slices.Equal(got, test.want) {
					t.Errorf("calls after a restart = %q, want %q", got, test.want)
				}
			})
		})
	}
}

func TestForKinds_Errors(t *testing.T) {
	declare := func(metav1.APIResource) kopf.Option { return nil }
	for name, test := range map[string]struct {
		option kopf.Option
		words  []string
	}{
		"a wrong pattern":   {kopf.ForKinds(kopf.Kinds("pods", "apps/v1"), declare), []string{`ForKinds: the pattern "apps/v1" can never match`, "name.version.group"}},
		"no patterns":       {kopf.ForKinds(kopf.Kinds(), declare), []string{"there are no patterns"}},
		"an empty selector": {kopf.ForKinds(kopf.KindSelector{}, declare), []string{"the selector is empty: use Kinds or KindsFunc"}},
		"KindsFunc(nil)":    {kopf.ForKinds(kopf.KindsFunc(nil), declare), []string{"KindsFunc(nil): pass a function"}},
		"no function":       {kopf.ForKinds(kopf.Kinds("pods"), nil), []string{"ForKinds: the function is nil"}},
	} {
		t.Run(name, func(t *testing.T) { wantErrorOf(t, []kopf.Option{test.option}, test.words) })
	}
	if text := fmt.Sprint(kopf.Kinds("a", "b.c"), " ", kopf.KindsFunc(func(metav1.APIResource) bool { return true })); text != "a, b.c a function" {
		t.Errorf("selectors print as %q, want %q", text, "a, b.c a function")
	}
}
