package objectstate_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

func TestMemos(t *testing.T) {
	var memos objectstate.Memos
	type key struct{ name string }
	one, same := &key{"name"}, &key{"name"}
	_, known := memos.Load(one)
	equal(t, "MEMO-01 nothing at first", known, false)
	memos.Store(one, 1)
	memos.Store(same, "2")
	memos.Store(one, 3)
	value, known := memos.Load(one)
	equal(t, "MEMO-01 the last value", value, any(3))
	equal(t, "MEMO-01 it is known", known, true)
	value, _ = memos.Load(same)
	equal(t, "MEMO-01 keys of the same name are two keys", value, any("2"))
}

func TestMemosBelongToTheirObjects(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), false)
	i.Observe(object("a", "2", "1"), false)
	i.Memos("1").Store("key", "of the first")
	value, _ := i.Memos("1").Load("key")
	equal(t, "MEMO-01 one memo for all handlers of an object", value, any("of the first"))
	_, known := i.Memos("2").Load("key")
	equal(t, "MEMO-04 B-06 another object of the same name has another", known, false)

	i.Forget("1")
	_, known = i.Memos("1").Load("key")
	equal(t, "MEMO-05 it is forgotten with the object", known, false)
	i.Memos("1").Store("key", "too late")
	equal(t, "MEMO-05 MEMO-07 a late handler brings nothing back", i.Len(), 1)
}

func TestMemosInTheContext(t *testing.T) {
	var memos objectstate.Memos
	if objectstate.FromContext(t.Context()) != nil {
		t.Error("MEMO-01: there are memos outside of handlers")
	}
	if objectstate.FromContext(objectstate.IntoContext(t.Context(), &memos)) != &memos {
		t.Error("MEMO-01: the context has lost the memos")
	}
}

// MEMO-01: handlers of one object may run side by side with its background work.
func TestMemosAreSafeForConcurrentUse(t *testing.T) {
	i := objectstate.New(objectstate.Wants{})
	i.Observe(object("a", "1", "1"), false)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 200 {
				i.Memos("1").Store(worker, n)
				i.Memos("1").Load((worker + 1) % 4)
			}
		})
	}
	wg.Wait()
	for worker := range 4 {
		value, _ := i.Memos("1").Load(worker)
		equal(t, fmt.Sprint("MEMO-01 the value of ", worker), value, any(199))
	}
}
