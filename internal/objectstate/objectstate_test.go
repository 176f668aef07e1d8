package objectstate_test

import (
	"fmt"
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

// object is what a watch shows: an object by its name, of an identity, in a version.
func object(name, uid, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// exhumed are the identities and versions of what was buried under a name.
func exhumed(i *objectstate.Inventory, name string) []string {
	var found []string
	for _, obj := range i.Exhume(nameOf(name)) {
		found = append(found, string(obj.GetUID())+"@"+obj.GetResourceVersion())
	}
	return found
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(objectstate.Memory{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestObserve(t *testing.T) {
	for _, test := range []struct {
		name     string
		listings []bool // for each sight: was it in the listing at the start?
		want     bool
	}{
		{"CAUSE-20 PIPE-01 listed at the start", []bool{true}, true},
		{"CAUSE-20 PIPE-01 appeared later", []bool{false}, false},
		{"CAUSE-20 listed, then changed", []bool{true, false, false}, true},
		{"CAUSE-22 known objects do not become initial by another listing", []bool{false, true}, false},
		{"CAUSE-22 MIG-14 a resync changes nothing", []bool{true, false, true}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			i := objectstate.New(objectstate.Wants{})
			for n, listed := range test.listings {
				i.Observe(object("a", "1", fmt.Sprint(n)), listed)
			}
			equal(t, "listed", i.Recall("1").Listed, test.want)
			equal(t, "count", i.Len(), 1)
		})
	}
}

func TestAnotherListingDoesNotForget(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), true)
	i.Recall("1").Handled = true
	i.Observe(object("a", "1", "1"), true)
	equal(t, "CAUSE-21 CAUSE-22 B-12 handled", i.Recall("1").Handled, true)
}

func TestRecall(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	deadline := time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	memory := i.Recall("1")
	equal(t, "a new one", *memory, objectstate.Memory{})
	memory.Written, memory.Deadline = "7", deadline
	equal(t, "CONS-01 CONS-13 what was written", *i.Recall("1"), objectstate.Memory{Written: "7", Deadline: deadline})
	if i.Recall("1") != memory {
		t.Error("MEMO-01: two memories of one object")
	}
	equal(t, "B-06 another object", *i.Recall("2"), objectstate.Memory{})
	equal(t, "count", i.Len(), 2)
}

func TestForget(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), true)
	i.Observe(object("b", "2", "1"), true)
	i.Recall("1").Handled = true
	i.Forget("1")
	i.Forget("3") // a stranger
	equal(t, "MEMO-05 PIPE-02 count", i.Len(), 1)
	equal(t, "MEMO-05 the memory", *i.Recall("1"), objectstate.Memory{})
	equal(t, "the other's memory", i.Recall("2").Listed, true)
}

func TestBuryAndExhume(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), false)
	i.Observe(object("b", "2", "1"), false)
	i.Recall("1").Handled = true
	i.Bury(object("a", "1", "5"))
	i.Bury(object("x", "9", "5"))
	equal(t, "B-04 nothing is buried under another name", len(exhumed(i, "b")), 0)
	equal(t, "B-04 nothing is buried that was never known", len(exhumed(i, "x")), 0)
	equal(t, "B-04 PIPE-02 it is still remembered, for the farewell", i.Recall("1").Handled, true)
	equal(t, "B-04 the last known state", exhumed(i, "a"), []string{"1@5"})
	equal(t, "B-04 once", len(exhumed(i, "a")), 0)
}

func TestBuryNamesakes(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	other := object("a", "3", "1")
	other.Namespace = "elsewhere"
	for _, obj := range []client.Object{object("a", "1", "1"), object("a", "2", "1"), other} {
		i.Observe(obj, false)
		i.Bury(obj)
	}
	equal(t, "B-06 both objects of the name", exhumed(i, "a"), []string{"1@1", "2@1"})
	equal(t, "the namesake elsewhere", len(i.Exhume(client.ObjectKeyFromObject(other))), 1)
}

// The informer and the workers use it at the same time.
func TestInventoryIsSafeForConcurrentUse(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 100 {
				name := fmt.Sprint(n)
				uid := fmt.Sprintf("%d-%d", worker, n)
				i.Observe(object(name, uid, "1"), true)
				i.Recall(types.UID(uid)).Handled = true
				i.Bury(object(name, uid, "2"))
				i.Exhume(nameOf(name))
				i.Len()
				if n%2 == 0 {
					i.Forget(types.UID(uid))
				}
			}
		})
	}
	wg.Wait()
	equal(t, "count", i.Len(), 200)
	for n := range 100 {
		equal(t, "what is left in the ground", len(i.Exhume(nameOf(fmt.Sprint(n)))), 0)
	}
}
