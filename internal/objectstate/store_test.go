package objectstate_test

import (
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// object returns a version of an object.
func object(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// takeLeft returns the uids and versions of the objects of a name that have left the cache.
func takeLeft(s *objectstate.Store[bool], name string) []string {
	var found []string
	for _, obj := range s.TakeLeft(nameOf(name)) {
		found = append(found, string(obj.GetUID())+"@"+obj.GetResourceVersion())
	}
	return found
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(objectstate.State[bool]{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestObserve(t *testing.T) {
	for _, test := range []struct {
		name     string
		listings []bool // whether each event belongs to the first listing
		want     bool
	}{
		{"CAUSE-20 PIPE-01 listed at the start", []bool{true}, true},
		{"CAUSE-20 PIPE-01 created later", []bool{false}, false},
		{"CAUSE-20 listed, then changed", []bool{true, false, false}, true},
		{"CAUSE-22 known object in another listing", []bool{false, true}, false},
		{"CAUSE-22 MIG-14 resync", []bool{true, false, true}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := objectstate.New[bool](objectstate.Options{})
			for n, listed := range test.listings {
				s.Observe(object("a", "1", fmt.Sprint(n)), listed)
			}
			equal(t, "listed", s.GetOrCreate("1").ExistedAtStart, test.want)
			equal(t, "count", s.Len(), 1)
		})
	}
}

func TestObserve_KeepsState(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), true)
	s.GetOrCreate("1").Worker = true
	s.Observe(object("a", "1", "1"), true)
	equal(t, "CAUSE-21 CAUSE-22 B-12 handled", s.GetOrCreate("1").Worker, true)
}

func TestGetOrCreate(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	state := s.GetOrCreate("1")
	equal(t, "new state", state, &objectstate.State[bool]{})
	state.SetAwaitedVersion("7", time.Minute)
	equal(t, "CONS-01 CONS-13 known state", s.GetOrCreate("1").AwaitedVersion(), "7")
	if s.GetOrCreate("1") != state {
		t.Error("MEMO-01: GetOrCreate returned two states for one object")
	}
	equal(t, "B-06 another object", *s.GetOrCreate("2"), objectstate.State[bool]{})
	equal(t, "count", s.Len(), 2)
}

func TestForget(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), true)
	s.Observe(object("b", "2", "1"), true)
	s.GetOrCreate("1").Worker = true
	s.Forget("1")
	s.Forget("3") // unknown
	equal(t, "MEMO-05 PIPE-02 count", s.Len(), 1)
	equal(t, "MEMO-05 state", *s.GetOrCreate("1"), objectstate.State[bool]{})
	equal(t, "state of the other object", s.GetOrCreate("2").ExistedAtStart, true)
}

func TestMarkLeft(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), false)
	s.Observe(object("b", "2", "1"), false)
	s.GetOrCreate("1").Worker = true
	s.MarkLeft(objectstate.LeftObject{Object: object("a", "1", "5")})
	s.MarkLeft(objectstate.LeftObject{Object: object("x", "9", "5")})
	equal(t, "B-04 another name", len(takeLeft(s, "b")), 0)
	equal(t, "B-04 an unknown object", len(takeLeft(s, "x")), 0)
	equal(t, "B-04 PIPE-02 the state remains, for the optional delete handlers", s.GetOrCreate("1").Worker, true)
	equal(t, "B-04 the last known state", takeLeft(s, "a"), []string{"1@5"})
	equal(t, "B-04 second call", len(takeLeft(s, "a")), 0)
}

func TestMarkLeft_SameName(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	other := object("a", "3", "1")
	other.Namespace = "elsewhere"
	for _, obj := range []client.Object{object("a", "1", "1"), object("a", "2", "1"), other} {
		s.Observe(obj, false)
		s.MarkLeft(objectstate.LeftObject{Object: obj})
	}
	equal(t, "B-06 both objects with the name", takeLeft(s, "a"), []string{"1@1", "2@1"})
	equal(t, "the same name in another namespace", len(s.TakeLeft(client.ObjectKeyFromObject(other))), 1)
}

// The informer and the workers use the store concurrently.
func TestStore_ConcurrentUse(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 100 {
				name := fmt.Sprint(n)
				uid := fmt.Sprintf("%d-%d", worker, n)
				s.Observe(object(name, uid, "1"), true)
				s.GetOrCreate(types.UID(uid)).Worker = true
				s.MarkLeft(objectstate.LeftObject{Object: object(name, uid, "2")})
				s.TakeLeft(nameOf(name))
				s.Len()
				if n%2 == 0 {
					s.Forget(types.UID(uid))
				}
			}
		})
	}
	wg.Wait()
	equal(t, "count", s.Len(), 200)
	for n := range 100 {
		equal(t, "remaining objects", len(s.TakeLeft(nameOf(fmt.Sprint(n)))), 0)
	}
}

// Each relist delivers new copies of all objects. The store keeps no part of the earlier copies.
func TestObserve_ReleasesEarlierCopies(t *testing.T) {
	const objects = 10_000
	copyOf := func(n int) *corev1.ConfigMap {
		return object("name-"+strconv.Itoa(n), "6a4ff5f2-7c1e-4a7e-9d3b-"+strconv.Itoa(n), "1")
	}
	s := objectstate.New[bool](objectstate.Options{})
	for n := range objects {
		s.Observe(copyOf(n), true)
	}
	before := heapSize()
	for n := range objects {
		s.Observe(copyOf(n), false)
	}
	if after := heapSize(); after > before+objects*10 {
		t.Errorf("%d bytes remain for each object, want less than 10", (after-before)/objects)
	}
	equal(t, "count", s.Len(), objects)
}

// heapSize returns the size of the heap after a garbage collection.
func heapSize() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
