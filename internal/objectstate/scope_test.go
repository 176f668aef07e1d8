package objectstate_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

func TestForgetKey(t *testing.T) {
	store := objectstate.New[struct{}](objectstate.Options{})
	old, current, other := object("one", "old", "1"), object("one", "new", "2"), object("two", "other", "3")
	for _, obj := range []client.Object{old, current, other} {
		store.Observe(obj, false)
	}
	store.MarkLeft(objectstate.LeftObject{Object: old})
	key := client.ObjectKeyFromObject(current)
	all := func(types.NamespacedName) bool { return true }
	if keys := store.Keys(all); len(keys) != 2 {
		t.Fatalf("got %v, want two keys", keys)
	}
	store.ForgetKey(key)
	if keys := store.Keys(all); len(keys) != 1 || keys[0].Name != "two" {
		t.Errorf("got the keys %v after ForgetKey, want only the other one", keys)
	}
	for uid, want := range map[types.UID]bool{"old": false, "new": false, "other": true} {
		if got := store.IsKnown(uid); got != want {
			t.Errorf("IsKnown(%s) = %v, want %v", uid, got, want)
		}
	}
	if store.Observed(key) != nil {
		t.Error("got an observed object after ForgetKey")
	}
}
