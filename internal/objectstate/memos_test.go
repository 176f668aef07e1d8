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
	equal(t, "MEMO-01 new memos contain the key", known, false)
	memos.Store(one, 1)
	memos.Store(same, "2")
	memos.Store(one, 3)
	value, known := memos.Load(one)
	equal(t, "MEMO-01 the last value", value, any(3))
	equal(t, "MEMO-01 the key is stored", known, true)
	value, _ = memos.Load(same)
	equal(t, "MEMO-01 keys are compared by identity", value, any("2"))
}

func TestStoreMemos(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), false)
	s.Observe(object("a", "2", "1"), false)
	s.Memos("1").Store("key", "of the first")
	value, _ := s.Memos("1").Load("key")
	equal(t, "MEMO-01 all handlers of an object share its memos", value, any("of the first"))
	_, known := s.Memos("2").Load("key")
	equal(t, "MEMO-04 B-06 a re-created object has the memo", known, false)

	s.Forget("1")
	_, known = s.Memos("1").Load("key")
	equal(t, "MEMO-05 the memo exists after the deletion", known, false)
	s.Memos("1").Store("key", "too late")
	equal(t, "MEMO-05 MEMO-07 a late handler does not create a state", s.Len(), 1)
}

func TestMemosFromContext(t *testing.T) {
	var memos objectstate.Memos
	if objectstate.MemosFromContext(t.Context()) != nil {
		t.Error("MEMO-01: MemosFromContext returns memos for a context without memos")
	}
	if objectstate.MemosFromContext(objectstate.ContextWithMemos(t.Context(), &memos)) != &memos {
		t.Error("MEMO-01: MemosFromContext does not return the memos in the context")
	}
}

// MEMO-01: handlers of an object run concurrently with its daemons and timers.
func TestMemos_ConcurrentUse(t *testing.T) {
	s := objectstate.New[bool](objectstate.Options{})
	s.Observe(object("a", "1", "1"), false)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := range 200 {
				s.Memos("1").Store(worker, n)
				s.Memos("1").Load((worker + 1) % 4)
			}
		})
	}
	wg.Wait()
	for worker := range 4 {
		value, _ := s.Memos("1").Load(worker)
		equal(t, fmt.Sprint("MEMO-01 the value of ", worker), value, any(199))
	}
}
