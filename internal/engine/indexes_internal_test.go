package engine

import (
	"context"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// indexedNames are the names of ConfigMaps.
type indexedNames map[types.UID]string

func (n indexedNames) has(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(n)), name)
}

// indexed returns an engine with an index of the names of ConfigMaps.
func indexed(t *testing.T) (*Engine, indexedNames) {
	t.Helper()
	x := indexedNames{}
	index := invoke.IndexHandler{
		Remove: func(uid types.UID) { delete(x, uid) },
		Prune: func(keep func(types.UID) bool) {
			maps.DeleteFunc(x, func(uid types.UID, _ string) bool { return !keep(uid) })
		},
	}
	index.Do = func(_ context.Context, req *invoke.Request) error {
		x[req.Object.GetUID()] = req.Object.GetName()
		return nil
	}
	kind := Kind{Name: t.Name(), GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	if err := kind.Indexes.Add("index", "index", &index); err != nil {
		t.Fatal(err)
	}
	return New(Settings{Store: progress.Smart(), Baseline: progress.AnnotationBaseline("")}, kind), x
}

func named(name string, uid types.UID) *corev1.ConfigMap {
	obj := newObject(nil)
	obj.Name, obj.UID = name, uid
	return obj
}

// An object may be deleted while no event handler updates the indexes: after the replica has become the leader, and before the engine observes its kind.
func TestPruneIndexes_RemovesUnknownObjects(t *testing.T) {
	e, x := indexed(t)
	for _, obj := range []*corev1.ConfigMap{named("deleted", "1"), named("known", "2")} {
		e.updateIndexes(t.Context(), obj)
	}
	e.states.Observe(named("known", "2"), true)
	e.PruneIndexes()
	if len(x) != 1 || !x.has("known") {
		t.Errorf("the index has %d objects, and the known one: %t; want only this one", len(x), x.has("known"))
	}
}

func TestIndexEvents(t *testing.T) {
	e, x := indexed(t)
	events := e.IndexEvents(t.Context())
	expect := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if !x.has(name) {
				t.Errorf("%s: the index lacks %q", when, name)
			}
		}
		if len(x) != len(names) {
			t.Errorf("%s: the index has %d names, want %q", when, len(x), names)
		}
	}
	events.OnAdd(named("one", "1"), true)
	events.OnAdd(named("two", "2"), false)
	expect("after the first list", "one", "two")
	events.OnUpdate(named("one", "1"), named("renamed", "1")) // as a changed value
	expect("after a change", "renamed", "two")
	events.OnUpdate(named("two", "2"), named("two", "3"))
	expect("after a missed deletion", "renamed", "two")
	events.OnDelete(named("two", "2"))
	expect("after the deletion of the earlier object", "renamed", "two")
	events.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "ns/two", Obj: named("two", "3")})
	events.OnDelete(named("renamed", "1"))
	expect("after all deletions")
}
