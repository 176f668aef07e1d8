package objectstate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// In the second run, all keys have the same hash.
func TestNames(t *testing.T) {
	for name, hash := range map[string]func(types.NamespacedName) uint64{
		"different hashes": newNames[bool]().hash,
		"equal hashes":     func(types.NamespacedName) uint64 { return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			all := newNames[bool]()
			all.hash = hash
			stateOf := func(namespace, name string) *State[bool] {
				return &State[bool]{observed: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}}
			}
			a, b, otherA, newA, newB := stateOf("x", "a"), stateOf("x", "b"), stateOf("y", "a"), stateOf("x", "a"), stateOf("x", "b")
			keyA, keyB, keyOtherA := types.NamespacedName{Namespace: "x", Name: "a"}, types.NamespacedName{Namespace: "x", Name: "b"}, types.NamespacedName{Namespace: "y", Name: "a"}
			expect := func(step string, want map[types.NamespacedName]*State[bool]) {
				t.Helper()
				for _, key := range []types.NamespacedName{keyA, keyB, keyOtherA} {
					if got := all.get(key); got != want[key] {
						t.Errorf("%s: the state of %s is %p, want %p", step, key, got, want[key])
					}
				}
				keys := all.keys(func(key types.NamespacedName) bool { return key != keyOtherA })
				found := map[types.NamespacedName]bool{}
				for _, key := range keys {
					found[key] = true
				}
				if len(keys) != len(found) || found[keyOtherA] || found[keyA] != (want[keyA] != nil) || found[keyB] != (want[keyB] != nil) {
					t.Errorf("%s: the keys are %v", step, keys)
				}
			}
			expect("empty", nil)
			all.set(a)
			all.set(b)
			all.set(otherA)
			expect("three states", map[types.NamespacedName]*State[bool]{keyA: a, keyB: b, keyOtherA: otherA})
			all.set(newA)
			expect("a new state of a", map[types.NamespacedName]*State[bool]{keyA: newA, keyB: b, keyOtherA: otherA})
			all.remove(keyA)
			all.remove(keyA)
			expect("a removed", map[types.NamespacedName]*State[bool]{keyB: b, keyOtherA: otherA})
			all.set(newB)
			expect("a new state of b", map[types.NamespacedName]*State[bool]{keyB: newB, keyOtherA: otherA})
			all.remove(keyB)
			expect("b removed", map[types.NamespacedName]*State[bool]{keyOtherA: otherA})
			all.remove(keyOtherA)
			expect("all removed", nil)
			if len(all.byHash)+len(all.others) > 0 {
				t.Errorf("the empty index has %d and %d states", len(all.byHash), len(all.others))
			}
		})
	}
}
