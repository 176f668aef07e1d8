package python

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A world is a namespace with objects, and operators that come and go.
type world struct {
	*suite
	t        *testing.T
	ctx      context.Context
	ns       string
	log      *callLog
	declared table // of all operators
}

func newWorld(t *testing.T, s *suite, reply func(c call, earlier int) answer, handlers ...handler) *world {
	w := &world{suite: s, t: t, ctx: t.Context(), ns: s.namespace(t), log: newCallLog(t, reply)}
	w.declared = table{Server: w.log.URL, Namespace: w.ns, Store: places[0].store, Prefix: places[0].prefix, Handlers: handlers}
	return w
}

func always(a answer) func(call, int) answer { return func(call, int) answer { return a } }

// start launches an operator. Its name is also the name in its calls.
func (w *world) start(side, name string, priority int) *process {
	w.t.Helper()
	declared := w.declared
	declared.Process, declared.Priority = name, priority
	return w.launch(w.t, side, declared)
}

// await fails the test if check has problems until the deadline.
func (w *world) await(p *process, check func() []string) {
	w.t.Helper()
	found := await(w.ctx, deadline, func() []string { return append(p.running(), check()...) })
	if len(found) > 0 {
		w.t.Fatalf("after %s: %q\nThe output of the operator:\n%s", deadline, found, p.tail(30))
	}
}

func (w *world) create(name string) {
	w.t.Helper()
	must(w.t, w.Create(w.ctx, w.newThing(w.ns, name)))
}

func (w *world) edit(name string, size int) {
	w.t.Helper()
	w.suite.edit(w.t, w.ns, name, size)
}

func (w *world) remove(name string) {
	w.t.Helper()
	must(w.t, w.Delete(w.ctx, w.newThing(w.ns, name)))
}

// get returns the object, or nil if it does not exist.
func (w *world) get(name string) thing {
	w.t.Helper()
	return w.suite.get(w.t, w.ns, name)
}

// called returns a problem until there are n calls by the process for the cause.
func (w *world) called(object, process, cause string, n int) []string {
	calls := w.log.of(object, process)
	calls = slices.DeleteFunc(calls, func(c call) bool { return c.Cause != cause })
	if len(calls) < n {
		return []string{fmt.Sprintf("%s has called the handler for the cause %s of %s only %d times", process, cause, object, len(calls))}
	}
	return nil
}

func (w *world) gone(name string) []string {
	if obj := w.get(name); obj != nil {
		return []string{fmt.Sprintf("%s still exists, with the finalizers %q", name, obj.GetFinalizers())}
	}
	return nil
}

// short makes calls readable: process, handler, cause and retry.
func short(calls []call) (out []string) {
	for _, c := range calls {
		out = append(out, fmt.Sprintf("%s %s %s#%d", c.Process, c.Handler, c.Cause, c.Retry))
	}
	return out
}

// pairs calls run for each version of kopf in both directions.
func pairs(t *testing.T, run func(t *testing.T, from, to string)) {
	for _, version := range versions {
		t.Run(version+"/to-ours", func(t *testing.T) {
			t.Parallel()
			run(t, version, ours)
		})
		t.Run(version+"/from-ours", func(t *testing.T) {
			t.Parallel()
			run(t, ours, version)
		})
	}
}

// needAll skips the test in the quick mode.
func needAll(t *testing.T) *suite {
	t.Helper()
	if *quick {
		t.Skip("-quick")
	}
	return needKopf(t)
}

func since(calls []call, start time.Time) bool {
	return !slices.ContainsFunc(calls, func(c call) bool { return c.at.Before(start) })
}
