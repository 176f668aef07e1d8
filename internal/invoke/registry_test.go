package invoke_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

// newRegistry returns a registry with handlers of type string.
func newRegistry(t *testing.T, ids ...string) *invoke.Registry[string] {
	t.Helper()
	var r invoke.Registry[string]
	for _, id := range ids {
		if err := r.Add(id, "key of "+id, "handler of "+id); err != nil {
			t.Fatal(err)
		}
	}
	return &r
}

func TestRegistry_KeepsOrderOfRegistration(t *testing.T) {
	r := newRegistry(t, "c", "a", "b")
	equal(t, "HND-10 ids", r.IDs(), []string{"c", "a", "b"})
}

func TestRegistry_Get(t *testing.T) {
	r := newRegistry(t, "a", "b")
	handler, ok := r.Get("b")
	equal(t, "handler", handler, "handler of b")
	equal(t, "found", ok, true)
	handler, ok = r.Get("key of b")
	equal(t, "unknown handler", handler, "")
	equal(t, "found an unknown id", ok, false)
}

func TestRegistry_ZeroValueIsEmpty(t *testing.T) {
	var r invoke.Registry[func()]
	equal(t, "ids", len(r.IDs()), 0)
	if _, ok := r.Get("a"); ok {
		t.Error("the empty registry returned a handler")
	}
}

func TestRegistry_AddRejectsDuplicates(t *testing.T) {
	for _, test := range []struct {
		name, id, key string
		want          []string // parts of the error
	}{
		{"B-21 SE-04 duplicate id", "a", "key of a", []string{`"a"`, "twice"}},
		{"B-21 SE-04 duplicate id with another key", "a", "another key", []string{`"a"`, "twice"}},
		{"B-21 KEY-04 duplicate key", "z", "key of a", []string{`"a"`, `"z"`, "key of a", "rename"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRegistry(t, "a", "b")
			err := r.Add(test.id, test.key, "duplicate")
			if err == nil {
				t.Fatal("Add returned no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("want %q in the error, got %v", part, err)
				}
			}
			equal(t, "ids after the error", r.IDs(), []string{"a", "b"})
			handler, _ := r.Get("a")
			equal(t, "handler after the error", handler, "handler of a")
			if err := r.Add("c", "key of c", ""); err != nil {
				t.Errorf("Add of the next handler returned %v, want no error", err)
			}
		})
	}
}

func TestRegistry_All(t *testing.T) {
	r := newRegistry(t, "b", "a", "c")
	var got []string
	for id, handler := range r.All() {
		if got = append(got, id+": "+handler); id == "a" {
			break
		}
	}
	if difference := cmp.Diff([]string{"b: handler of b", "a: handler of a"}, got); difference != "" {
		t.Errorf("the handlers before a break (-want +got):\n%s", difference)
	}
	for _, want := range []string{"a", "x"} {
		if got := r.Any(func(handler string) bool { return handler == "handler of "+want }); got != (want == "a") {
			t.Errorf("Any() is %t for the handler of %s", got, want)
		}
	}
}

func TestRegistry_Map(t *testing.T) {
	r := newRegistry(t, "b", "a")
	changed := r.Map(func(handler string) string { return "changed " + handler })
	handler, _ := changed.Get("a")
	equal(t, "changed handler", handler, "changed handler of a")
	equal(t, "ids", changed.IDs(), []string{"b", "a"})
	handler, _ = r.Get("a")
	equal(t, "handler of the original", handler, "handler of a")
}
