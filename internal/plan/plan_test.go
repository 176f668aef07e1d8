package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var (
	succeeded = progress.Record{Success: true, Retries: 1}
	failed    = progress.Record{Failure: true, Retries: 1}
	retrying  = progress.Record{Delayed: now, Retries: 1}
	delayed   = progress.Record{Delayed: now.Add(time.Second), Retries: 1}
)

// after is a handler that needs the success of others.
func after(id string, first ...string) named { return named{id, invoke.Handler{After: first}} }

// fixed is a lifecycle that returns the same ids always.
func fixed(ids ...string) progress.Lifecycle {
	return func([]string, func(string) progress.Record) []string { return ids }
}

func TestMake(t *testing.T) {
	for _, test := range []struct {
		name      string
		handlers  []named
		selected  []string // default: all handlers
		called    []string
		records   map[string]progress.Record
		lifecycle progress.Lifecycle // default: AllAtOnce
		want      plan.Plan
	}{
		{name: "PROG-19 no handlers"},
		{
			name: "B-20 all handlers are due, in the order of their registration", handlers: []named{after("b"), after("a")},
			want: plan.Plan{Next: []string{"b", "a"}},
		},
		{
			name: "PROG-15 finished and delayed handlers are not due", handlers: []named{after("ok"), after("bad"), after("later"), after("now"), after("new")},
			records: map[string]progress.Record{"ok": succeeded, "bad": failed, "later": delayed, "now": retrying},
			want:    plan.Plan{Next: []string{"now", "new"}},
		},
		{
			name: "PROG-10 handlers that are not selected are not due", handlers: []named{after("a"), after("b")}, selected: []string{"b"},
			want: plan.Plan{Next: []string{"b"}},
		},

		// After
		{
			name: "HND-10 a handler waits for another one", handlers: []named{after("a"), after("b", "a")},
			want: plan.Plan{Next: []string{"a"}, Blocked: []string{"b"}},
		},
		{
			name: "HND-10 a handler waits for a later one", handlers: []named{after("b", "a"), after("a")},
			want: plan.Plan{Next: []string{"a"}, Blocked: []string{"b"}},
		},
		{
			name: "HND-10 a handler waits for a delayed one", handlers: []named{after("a"), after("b", "a")},
			records: map[string]progress.Record{"a": delayed}, want: plan.Plan{Blocked: []string{"b"}},
		},
		{
			name: "HND-10 a chain waits", handlers: []named{after("c", "b"), after("b", "a"), after("a")},
			want: plan.Plan{Next: []string{"a"}, Blocked: []string{"c", "b"}},
		},
		{
			name: "HND-10 a handler waits for the second of two", handlers: []named{after("a"), after("b"), after("c", "a", "b")},
			records: map[string]progress.Record{"a": succeeded}, want: plan.Plan{Next: []string{"b"}, Blocked: []string{"c"}},
		},
		{
			name: "HND-10 all that a handler waits for have succeeded", handlers: []named{after("a"), after("b"), after("c", "a", "b")},
			records: map[string]progress.Record{"a": succeeded, "b": succeeded}, want: plan.Plan{Next: []string{"c"}},
		},
		{
			name: "HND-10 a handler does not wait for one that is not selected", handlers: []named{after("a"), after("b", "a")}, selected: []string{"b"},
			want: plan.Plan{Next: []string{"b"}},
		},
		{
			name:     "HND-10 a handler that has failed for another cause skips nothing",
			handlers: []named{after("a"), after("b", "a")}, selected: []string{"b"}, records: map[string]progress.Record{"a": failed},
			want: plan.Plan{Next: []string{"b"}},
		},
		{
			name: "PROG-27 a handler is skipped after a failure", handlers: []named{after("a"), after("b", "a")},
			records: map[string]progress.Record{"a": failed}, want: plan.Plan{Skipped: []plan.Skip{{ID: "b", After: "a"}}},
		},
		{
			name: "PROG-27 a handler is skipped after a later one has failed", handlers: []named{after("b", "a"), after("a")},
			records: map[string]progress.Record{"a": failed}, want: plan.Plan{Skipped: []plan.Skip{{ID: "b", After: "a"}}},
		},
		{
			name: "PROG-27 a chain is skipped", handlers: []named{after("a"), after("b", "a"), after("c", "b")},
			records: map[string]progress.Record{"a": failed}, want: plan.Plan{Skipped: []plan.Skip{{ID: "b", After: "a"}, {ID: "c", After: "b"}}},
		},
		{
			name: "PROG-27 a chain in reverse order is skipped", handlers: []named{after("d", "c"), after("c", "b"), after("b", "a"), after("a"), after("free")},
			records: map[string]progress.Record{"a": failed},
			want:    plan.Plan{Next: []string{"free"}, Skipped: []plan.Skip{{ID: "b", After: "a"}, {ID: "c", After: "b"}, {ID: "d", After: "c"}}},
		},
		{
			name: "PROG-27 a handler with a failed and an unfinished predecessor", handlers: []named{after("a"), after("b"), after("c", "a", "b")},
			records: map[string]progress.Record{"a": failed}, want: plan.Plan{Next: []string{"b"}, Skipped: []plan.Skip{{ID: "c", After: "a"}}},
		},
		{
			name:     "PROG-27 a handler that has finished before is not skipped",
			handlers: []named{after("a"), after("b", "a"), after("c", "a")},
			records:  map[string]progress.Record{"a": failed, "b": succeeded, "c": failed},
		},
		{
			name: "PROG-27 a delayed handler is skipped", handlers: []named{after("a"), after("b", "a")},
			records: map[string]progress.Record{"a": failed, "b": delayed}, want: plan.Plan{Skipped: []plan.Skip{{ID: "b", After: "a"}}},
		},

		// Lifecycles
		{
			name: "LIFE-02 one by one", handlers: []named{after("a"), after("b"), after("c")}, lifecycle: progress.OneByOne,
			want: plan.Plan{Next: []string{"a"}, Limited: true},
		},
		{
			name: "LIFE-02 one by one, the last handler", handlers: []named{after("a"), after("b")}, lifecycle: progress.OneByOne,
			records: map[string]progress.Record{"a": succeeded}, want: plan.Plan{Next: []string{"b"}},
		},
		{
			name: "LIFE-02 as soon as possible: the handler with the fewest attempts", handlers: []named{after("a"), after("b"), after("c")},
			lifecycle: progress.Asap, records: map[string]progress.Record{"a": retrying},
			want: plan.Plan{Next: []string{"b"}, Limited: true},
		},
		{
			name: "LIFE-03 one by one, a handler was called in this reconcile", handlers: []named{after("a"), after("b"), after("c")},
			called: []string{"a"}, records: map[string]progress.Record{"a": succeeded}, lifecycle: progress.OneByOne,
			want: plan.Plan{Limited: true},
		},
		{
			name: "B-20 all at once, a handler was called in this reconcile", handlers: []named{after("a"), after("b", "a"), after("c", "a")},
			called: []string{"a"}, records: map[string]progress.Record{"a": succeeded}, want: plan.Plan{Next: []string{"b", "c"}},
		},
		{
			name: "LIFE-09 a handler is called once in a reconcile, even if it is due again", handlers: []named{after("a"), after("b")},
			called: []string{"a", "b"}, records: map[string]progress.Record{"a": retrying, "b": retrying},
		},
		{
			name: "LIFE-01 two at a time, one was called in this reconcile", handlers: []named{after("a"), after("b"), after("c")},
			called: []string{"a"}, records: map[string]progress.Record{"a": succeeded},
			lifecycle: func(due []string, _ func(string) progress.Record) []string { return due[:min(2, len(due))] },
			want:      plan.Plan{Next: []string{"b"}, Limited: true},
		},
		{
			name: "LIFE-01 two at a time, two were called in this reconcile", handlers: []named{after("a"), after("b"), after("c")},
			called: []string{"a", "b"}, records: map[string]progress.Record{"a": succeeded, "b": succeeded},
			lifecycle: func(due []string, _ func(string) progress.Record) []string { return due[:min(2, len(due))] },
			want:      plan.Plan{Limited: true},
		},
		{
			name: "LIFE-01 a lifecycle chooses fewer handlers than were called in this reconcile", handlers: []named{after("a"), after("b"), after("c")},
			called: []string{"a", "b"}, records: map[string]progress.Record{"a": succeeded, "b": succeeded},
			lifecycle: progress.OneByOne, want: plan.Plan{Limited: true},
		},
		{
			name: "LIFE-01 the order of the lifecycle", handlers: []named{after("a"), after("b")}, lifecycle: fixed("b", "a"),
			want: plan.Plan{Next: []string{"b", "a"}},
		},
		{
			name: "LIFE-01 a lifecycle repeats ids", handlers: []named{after("a"), after("b"), after("c")}, lifecycle: fixed("b", "b", "a", "b"),
			want: plan.Plan{Next: []string{"b", "a"}, Limited: true},
		},
		{
			name: "LIFE-01 a lifecycle returns ids that are not due", handlers: []named{after("a"), after("ok"), after("later"), after("blocked", "a")},
			records: map[string]progress.Record{"ok": succeeded, "later": delayed}, lifecycle: fixed("ok", "later", "blocked", "unknown", "a"),
			want: plan.Plan{Next: []string{"a"}, Blocked: []string{"blocked"}},
		},
		{
			name: "LIFE-01 a lifecycle returns none", handlers: []named{after("a")}, lifecycle: fixed(),
			want: plan.Plan{Limited: true, Refused: true},
		},
		{
			name: "LIFE-01 a lifecycle returns only ids that are not due", handlers: []named{after("a")}, lifecycle: fixed("x"),
			want: plan.Plan{Limited: true, Refused: true},
		},
		{name: "LIFE-01 a lifecycle has nothing to choose from", handlers: []named{after("a")}, lifecycle: fixed("a"), records: map[string]progress.Record{"a": succeeded}},
	} {
		t.Run(test.name, func(t *testing.T) {
			handlers := register(t, test.handlers...)
			selected, lifecycle := test.selected, test.lifecycle
			if selected == nil {
				selected = handlers.IDs()
			}
			if lifecycle == nil {
				lifecycle = progress.AllAtOnce
			}
			before := slices.Clone(selected)
			got := plan.Make(handlers, selected, test.called, func(id string) progress.Record { return test.records[id] }, lifecycle, now)
			equal(t, "plan", got, test.want)
			equal(t, "selected handlers after Make", selected, before)
		})
	}
}

// The plan does not depend on the order in which handlers are registered.
func TestMake_AfterInAnyOrder(t *testing.T) {
	all := []named{after("a"), after("b", "a"), after("c", "b"), after("d", "a", "c"), after("e")}
	for _, test := range []struct {
		name    string
		records map[string]progress.Record
		want    plan.Plan // sorted
	}{
		{"HND-10 blocked", nil, plan.Plan{Next: []string{"a", "e"}, Blocked: []string{"b", "c", "d"}}},
		{
			"HND-10 the first handler has succeeded", map[string]progress.Record{"a": succeeded},
			plan.Plan{Next: []string{"b", "e"}, Blocked: []string{"c", "d"}},
		},
		{
			"PROG-27 a handler in the middle has failed", map[string]progress.Record{"a": succeeded, "b": failed},
			plan.Plan{Next: []string{"e"}, Skipped: []plan.Skip{{ID: "c", After: "b"}, {ID: "d", After: "c"}}},
		},
		{
			"PROG-27 the first handler has failed", map[string]progress.Record{"a": failed},
			plan.Plan{Next: []string{"e"}, Skipped: []plan.Skip{{ID: "b", After: "a"}, {ID: "c", After: "b"}, {ID: "d", After: "a"}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			permute(all, func(order []named) {
				handlers := register(t, order...)
				got := plan.Make(handlers, handlers.IDs(), nil, func(id string) progress.Record { return test.records[id] }, progress.AllAtOnce, now)
				slices.Sort(got.Next)
				slices.Sort(got.Blocked)
				slices.SortFunc(got.Skipped, func(a, b plan.Skip) int { return strings.Compare(a.ID, b.ID) })
				equal(t, "plan", got, test.want)
			})
		})
	}
}

// permute calls a function with all orders of some handlers.
func permute(all []named, do func(order []named)) {
	var visit func(order, rest []named)
	visit = func(order, rest []named) {
		if len(rest) == 0 {
			do(order)
		}
		for i := range rest {
			visit(append(slices.Clone(order), rest[i]), slices.Delete(slices.Clone(rest), i, i+1))
		}
	}
	visit(nil, all)
}

func TestMake_LifecycleReceivesRecords(t *testing.T) {
	var got []progress.Record
	lifecycle := func(due []string, record func(string) progress.Record) []string {
		for i, id := range due {
			got = append(got, record(id))
			due[i] = "changed" // a lifecycle may change its argument
		}
		return due
	}
	records := func(id string) progress.Record { return map[string]progress.Record{"a": retrying}[id] }
	handlers := register(t, after("a"), after("b"))
	p := plan.Make(handlers, handlers.IDs(), nil, records, lifecycle, now)
	equal(t, "LIFE-01 records", got, []progress.Record{retrying, {}})
	equal(t, "LIFE-01 plan", p, plan.Plan{Limited: true, Refused: true})
}

func TestSkip_Err(t *testing.T) {
	err := plan.Skip{ID: "b", After: "a"}.Err()
	if _, ok := errors.AsType[*progress.PermanentError](err); !ok || err.Error() != `it comes after "a", which has failed` {
		t.Errorf("PROG-27: Err = %T %v, want a permanent error that names the handler \"a\"", err, err)
	}
}

func TestChoose_KeepsArgument(t *testing.T) {
	due := []string{"a", "b"}
	reversed := func(due []string, _ func(string) progress.Record) []string {
		slices.Reverse(due)
		return due
	}
	equal(t, "LIFE-01 chosen handlers", plan.Choose(reversed, nil, due), []string{"b", "a"})
	equal(t, "LIFE-01 due handlers", due, []string{"a", "b"})
}
