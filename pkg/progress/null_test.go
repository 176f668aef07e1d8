package progress_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A stored null is not a record. Purge and PurgeStale remove it.
func TestState_PurgesNulls(t *testing.T) {
	inStatus := func() client.Object { return withStatus(statusOf(map[string]any{"a": nil})) }
	annotated := func() client.Object { return configMap(kopfPrefix+"/a", " null\n") }
	for _, test := range []struct {
		name  string
		store progress.Store
		obj   func() client.Object
	}{
		{"annotations", progress.Annotations(""), annotated},
		{"a custom prefix", progress.Annotations(ownPrefix), func() client.Object { return configMap(ownPrefix+"/a", "null") }},
		{"the default store", progress.Smart(), annotated},
		{"the older location of the default store", progress.Smart(), inStatus},
		{"the status", progress.Status(""), inStatus},
		{"the second store", progress.Multi(progress.Annotations(ownPrefix), progress.Status("")), inStatus},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, remove := range map[string]func(*progress.State, client.Object) error{
				"Purge":      func(s *progress.State, obj client.Object) error { return s.Purge(test.store, obj) },
				"PurgeStale": func(s *progress.State, obj client.Object) error { return s.PurgeStale(test.store, obj, t0) },
			} {
				obj := test.obj()
				state, err := progress.Load(test.store, obj, []string{"a", "b"})
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "HasStale", state.HasStale(t0), true)
				equal(t, "PROG-02 record", state.Record("a"), progress.Record{})
				if err := remove(state, obj); err != nil {
					t.Fatal(err)
				}
				again, err := progress.Load(test.store, obj, []string{"a"})
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "HasStale after "+name, again.HasStale(t0), false)
				equal(t, "annotations after "+name, len(obj.GetAnnotations()), 0)
			}
		})
	}
}
