package progress_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// countingObject counts the accesses to its annotations, each of which may copy all of them.
type countingObject struct {
	metav1.PartialObjectMetadata
	gets, sets int
}

func (o *countingObject) GetAnnotations() map[string]string {
	o.gets++
	return o.PartialObjectMetadata.GetAnnotations()
}

func (o *countingObject) SetAnnotations(annotations map[string]string) {
	o.sets++
	o.PartialObjectMetadata.SetAnnotations(annotations)
}

// countedStatus counts the conversions of its object to JSON.
type countedStatus struct {
	Count counter     `json:"count"`
	Kopf  withRecords `json:"kopf,omitzero"`
}

type withRecords struct {
	Progress map[string]map[string]any `json:"progress,omitempty"`
}

type counter struct{ conversions *int }

func (c counter) MarshalJSON() ([]byte, error) {
	if c.conversions != nil {
		*c.conversions++
	}
	return []byte("0"), nil
}

func (c *counter) UnmarshalJSON([]byte) error { return nil }

func subIDs(parent string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s/%05d", parent, i)
	}
	return ids
}

// storeSubs stores the record of a handler that lists sub-handlers, and the records of these sub-handlers.
func storeSubs(t testing.TB, store progress.Store, obj client.Object, parent string, subs []string) {
	t.Helper()
	state, err := progress.Load(store, obj, []string{parent})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	state.Begin("create", []string{parent}, now)
	if err := state.Adopt(store, obj, parent, subs, now); err != nil {
		t.Fatal(err)
	}
	if err := state.Save(store, obj); err != nil {
		t.Fatal(err)
	}
}

// handleAll reads all records, stores them and removes them.
func handleAll(t testing.TB, store progress.Store, obj client.Object, ids ...string) {
	t.Helper()
	state, err := progress.Load(store, obj, ids)
	if err != nil {
		t.Fatal(err)
	}
	state.Begin("create", ids, time.Now())
	for _, do := range []func(progress.Store, client.Object) error{state.Save, state.Purge} {
		if err := do(store, obj); err != nil {
			t.Fatal(err)
		}
	}
}

func TestState_AccessesManyRecordsAtOnce(t *testing.T) {
	const most = 20 // accesses, for any number of records
	subs := slices.Concat(subIDs("grow", 500), subIDs("shrink", 500))
	for name, store := range map[string]progress.Store{
		"Smart":       progress.Smart(),
		"Annotations": progress.Annotations("example.com"),
		"Multi":       progress.Multi(progress.Annotations("example.com"), progress.Smart()),
		"ByHandler":   progress.ByHandler(progress.Smart(), map[string]progress.Store{"shrink": progress.Annotations("example.com")}),
		"WithHistory": progress.WithHistory(progress.Smart(), 10),
	} {
		t.Run(name, func(t *testing.T) {
			obj := &countingObject{}
			storeSubs(t, store, obj, "grow", subs)
			if n := len(obj.Annotations); n < 1000 {
				t.Fatalf("the object has %d annotations, want the records of 1000 sub-handlers", n)
			}
			obj.gets, obj.sets = 0, 0
			handleAll(t, store, obj, "grow", "shrink")
			if obj.gets > most || obj.sets > most {
				t.Errorf("the annotations were read %d times and replaced %d times, want at most %d", obj.gets, obj.sets, most)
			}
			for key := range obj.Annotations {
				if strings.Contains(key, "grow") || strings.Contains(key, "shrink") {
					t.Fatalf("the record %s remains", key)
				}
			}
		})
	}
	for name, store := range map[string]progress.Store{"Status": progress.Status(""), "Smart with records in the status": progress.Smart()} {
		t.Run(name, func(t *testing.T) {
			conversions := 0
			obj := &widget[countedStatus]{Status: countedStatus{Count: counter{&conversions}}}
			storeSubs(t, progress.Status(""), obj, "grow", subs)
			obj.Status.Count, conversions = counter{&conversions}, 0 // decoding has dropped it
			state, err := progress.Load(store, obj, []string{"grow", "shrink"})
			if err != nil {
				t.Fatal(err)
			}
			if err := state.Purge(store, obj); err != nil {
				t.Fatal(err)
			}
			if conversions > most {
				t.Errorf("the object was converted %d times, want at most %d", conversions, most)
			}
			if n := len(obj.Status.Kopf.Progress); n > 0 {
				t.Errorf("%d records remain", n)
			}
		})
	}
}

// fetchCounter counts the calls of Fetch.
type fetchCounter struct {
	wrapped
	calls int
}

type wrapped = progress.Store // embedded as a field with a name other than that of a method

func (s *fetchCounter) Fetch(obj client.Object, id string) (*progress.Record, error) {
	s.calls++
	return s.wrapped.Fetch(obj, id)
}

func TestLoad_LimitsSubHandlers(t *testing.T) {
	const most = 5000
	obj := &metav1.PartialObjectMetadata{}
	for parent, n := range map[string]int{"grow": 4500, "shrink": 40_000} {
		if err := progress.Smart().Store(obj, parent, progress.Record{Purpose: "create", Retries: 1, Subrefs: subIDs(parent, n)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"grow", "shrink"} {
		store := &fetchCounter{wrapped: progress.Smart()}
		state, err := progress.Load(store, obj, []string{"grow", "shrink"})
		if err != nil {
			t.Fatal(err)
		}
		if store.calls > most+2 {
			t.Errorf("Load reads %d records, want at most %d", store.calls, most+2)
		}
		if n := len(state.Record(id).Subrefs); n > most {
			t.Errorf("the record of %s lists %d sub-handlers, want at most %d", id, n, most)
		}
	}
}

func TestRename_KeepsManySubHandlers(t *testing.T) {
	obj := &countingObject{}
	store := progress.Smart()
	storeSubs(t, store, obj, "old", subIDs("old", 1000))
	obj.gets = 0
	state, err := progress.Load(store, obj, []string{"new"})
	if err == nil {
		err = state.Rename(store, obj, "new", "old")
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, want := state.Record("new").Subrefs, subIDs("new", 1000); !slices.Equal(got, want) {
		t.Errorf("the renamed handler lists %d sub-handlers, the first one is %q", len(got), got[0])
	}
	if obj.gets > 20 {
		t.Errorf("the annotations were read %d times", obj.gets)
	}
}

func TestByHandler_FindsTheStoreOfLongIDs(t *testing.T) {
	stored := progress.InMemory()
	store := progress.ByHandler(progress.Smart(), map[string]progress.Store{"grow": stored, "grow/a": progress.Annotations("example.com")})
	obj := &metav1.PartialObjectMetadata{}
	obj.SetUID("1")
	id := "grow" + strings.Repeat("/", 100_000) // shortening it step by step would hash 5 GB
	if err := store.Store(obj, id, progress.Record{Purpose: "create"}); err != nil {
		t.Fatal(err)
	}
	if record, err := stored.Fetch(obj, id); record == nil || err != nil {
		t.Errorf("the record is in another store: %v, %v", record, err)
	}
	for id, key := range map[string]string{"grow/a/b": "example.com/grow.a.b", "growth": "kopf.zalando.org/growth", "grow/a": "example.com/grow.a"} {
		if err := store.Store(obj, id, progress.Record{Purpose: "create"}); err != nil {
			t.Fatal(err)
		}
		if _, found := obj.GetAnnotations()[key]; !found {
			t.Errorf("the record of %s is not in the annotation %s: %v", id, key, obj.GetAnnotations())
		}
	}
}
