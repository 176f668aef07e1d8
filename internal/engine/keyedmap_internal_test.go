package engine

import (
	"slices"
	"sync"
	"testing"
)

func TestKeyedMap(t *testing.T) {
	var m keyedMap[string, int]
	expect := func(keys ...string) {
		t.Helper()
		got := m.Keys()
		slices.Sort(got)
		if !slices.Equal(got, keys) || m.Len() != len(keys) {
			t.Errorf("the keys are %q, and the length is %d; want %q", got, m.Len(), keys)
		}
	}
	if m.Get("a") != 0 || m.Take("a") != 0 {
		t.Error("the zero map has a value")
	}
	expect()
	m.Set("a", 1)
	m.Set("b", 2)
	expect("a", "b")
	if got := m.Get("b"); got != 2 {
		t.Errorf("the value of b is %d", got)
	}
	if got := m.Take("a"); got != 1 {
		t.Errorf("Take has returned %d", got)
	}
	if m.Get("a") != 0 || m.Take("a") != 0 {
		t.Error("the removed key has a value")
	}
	expect("b")
}

func TestKeyedMap_Update(t *testing.T) {
	var m keyedMap[string, int]
	for _, test := range []struct {
		name   string
		next   int
		keep   bool
		stored int
		found  bool
	}{
		{"an absent key stays absent", 1, false, 0, false},
		{"an absent key is stored", 1, true, 0, false},
		{"a key is replaced", 2, true, 1, true},
		{"a zero value is kept", 0, true, 2, true},
		{"a key is removed", 3, false, 0, true},
		{"the key is absent again", 0, false, 0, false},
	} {
		m.Update("key", func(stored int, found bool) (int, bool) {
			if stored != test.stored || found != test.found {
				t.Errorf("%s: the stored value is %d (%v), want %d (%v)", test.name, stored, found, test.stored, test.found)
			}
			return test.next, test.keep
		})
		if test.keep && (m.Get("key") != test.next || m.Len() != 1) || !test.keep && m.Len() != 0 {
			t.Errorf("%s: the map has %d keys, and the value is %d", test.name, m.Len(), m.Get("key"))
		}
	}
}

func TestKeyedMap_ConcurrentUpdates(t *testing.T) {
	var m keyedMap[int, int]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 1000 {
				m.Update(i%10, func(stored int, _ bool) (int, bool) { return stored + 1, true })
			}
		})
	}
	all.Wait()
	for i := range 10 {
		if got := m.Take(i); got != 800 {
			t.Errorf("the value of %d is %d, want 800", i, got)
		}
	}
	if m.Len() != 0 {
		t.Errorf("%d keys are left", m.Len())
	}
}
