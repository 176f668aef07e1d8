package plan_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

type (
	m       = map[string]any
	request = *invoke.Request
)

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := cmp.Diff(want, got, cmpopts.EquateEmpty()); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

// named is a handler with its id.
type named struct {
	id string
	invoke.Handler
}

// register returns a registry with handlers in the given order.
func register(t *testing.T, all ...named) *plan.Handlers {
	t.Helper()
	handlers := &plan.Handlers{}
	for _, h := range all {
		if err := handlers.Add(h.id, h.id, &h.Handler); err != nil {
			t.Fatal(err)
		}
	}
	return handlers
}

// viewOf returns the view of an object with a difference.
func viewOf(d diff.Diff) *invoke.View {
	return &invoke.View{Object: &unstructured.Unstructured{Object: m{"kind": "Widget"}}, Reason: "update", Diff: d}
}

// on returns the criteria of a handler for reasons.
func on(reasons ...string) match.Criteria { return match.Criteria{Reasons: reasons} }

// onField returns the criteria of an update handler for a field.
func onField(tests ...match.Test) match.Criteria {
	return match.Criteria{Reasons: []string{"update"}, Filters: match.Filters{Field: &match.FieldFilter{Path: []string{"spec", "size"}, Tests: tests}}}
}

func yes(request) bool     { return true }
func no(request) bool      { return false }
func panics(request) bool  { panic("oh") }
func panicsOn(any) bool    { panic("oh") }
func matchesAny(any) bool  { return true }
func matchesNone(any) bool { return false }

// logTo returns a logger that appends its lines up to V(4).
func logTo(lines *[]string) logr.Logger {
	return funcr.New(func(_, line string) { *lines = append(*lines, line) }, funcr.Options{Verbosity: 4})
}

// checkLog compares the log with the only expected line: its level and parts of it. No parts: nothing is logged.
func checkLog(t *testing.T, lines []string, isErr bool, parts ...string) {
	t.Helper()
	if len(parts) == 0 {
		equal(t, "log", lines, []string(nil))
		return
	}
	if len(lines) != 1 {
		t.Fatalf("got %d log lines, want 1:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	if !isErr {
		parts = append(parts, `"level"=4`)
	}
	if isErr == strings.Contains(lines[0], `"level"=`) {
		t.Errorf("logged as an error: %t, want %t", !isErr, isErr)
	}
	for _, part := range append(parts, `"handler"="fn"`) {
		if !strings.Contains(lines[0], part) {
			t.Errorf("%s is missing in %s", part, lines[0])
		}
	}
}

func TestMatchObject(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler invoke.Handler
		want    bool
		isErr   bool
		log     []string // parts of the only log line; none: nothing is logged
	}{
		{name: "FLT-01 no filters", want: true},
		{name: "FLT-09 a predicate matches", handler: invoke.Handler{When: []func(request) bool{yes}}, want: true},
		{name: "FLT-01 all predicates match", handler: invoke.Handler{When: []func(request) bool{yes, yes}}, want: true},
		{name: "FLT-09 a predicate does not match", handler: invoke.Handler{When: []func(request) bool{no}}, log: []string{`"the When function of the handler returned false"`}},
		{name: "FLT-01 the second predicate does not match", handler: invoke.Handler{When: []func(request) bool{yes, no}}, log: []string{`"the When function of the handler returned false"`}},
		{name: "FLT-01 predicates after a mismatch are not called", handler: invoke.Handler{When: []func(request) bool{no, panics}}, log: []string{`"the When function of the handler returned false"`}},
		{
			name:    "FLT-01 predicates are not called if a filter does not match",
			handler: invoke.Handler{Criteria: onField(matchesNone), When: []func(request) bool{panics}}, log: []string{"the field spec.size does not match"},
		},
		{
			name: "FLT-12 the change of the object does not count", want: true,
			handler: invoke.Handler{Criteria: onField(matchesAny), Changed: no},
		},
		{
			name: "B-26 a predicate panics", handler: invoke.Handler{When: []func(request) bool{yes, panics}}, isErr: true,
			log: []string{"panic: oh", `"stack"=`, "match_test.go"},
		},
		{
			name: "B-26 a filter panics", handler: invoke.Handler{Criteria: onField(panicsOn)}, isErr: true,
			log: []string{"panic: oh", `"stack"=`, "match_test.go"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			got := plan.MatchObject(logTo(&lines), "fn", &test.handler, viewOf(nil), match.Input{Object: m{"spec": m{"size": int64(1)}}}).Accepts()
			if got != test.want {
				t.Errorf("MatchObject = %t, want %t", got, test.want)
			}
			if test.isErr && len(lines) == 2 { // a mismatch is logged, too
				checkLog(t, lines[1:], false, `"a filter of the handler panicked"`)
				lines = lines[:1]
			}
			checkLog(t, lines, test.isErr, test.log...)
		})
	}
}

// All predicates of a handler receive the same request: it is created once.
func TestMatchObject_SharesRequest(t *testing.T) {
	view := viewOf(nil)
	var seen []request
	note := func(r request) bool { seen = append(seen, r); return true }
	h := invoke.Handler{When: []func(request) bool{note, note}, Changed: note, Criteria: on("update")}
	plan.MatchObject(logr.Discard(), "fn", &h, view, match.Input{})
	plan.MatchCause(logr.Discard(), "fn", &h, view, match.Cause{Reason: "update"}, match.Input{})
	if len(seen) != 3 || seen[0] != seen[1] || seen[0] != seen[2] || seen[0].Reason != "update" {
		t.Errorf("FLT-10: the predicates receive the requests %v, want one request for the update", seen)
	}
}

func TestMatchCause(t *testing.T) {
	size := diff.Item{Op: diff.Change, Path: diff.Path{"spec", "size"}, Old: int64(1), New: int64(2)}
	ready := diff.Item{Op: diff.Change, Path: diff.Path{essence.ConditionsKey, "Ready"}, Old: "False", New: "True"}
	input := match.Input{HasCause: true, Old: m{"spec": m{"size": int64(1)}}, New: m{"spec": m{"size": int64(2)}}}
	for _, test := range []struct {
		name    string
		handler invoke.Handler
		reason  string // default: update
		diff    diff.Diff
		want    bool
		isErr   bool
		log     []string // parts of the only log line; none: nothing is logged
	}{
		{name: "HND-16 its reason", handler: invoke.Handler{Criteria: on("update")}, diff: diff.Diff{size}, want: true},
		{
			name: "HND-16 another reason", handler: invoke.Handler{Criteria: on("create")}, diff: diff.Diff{size},
			log: []string{`"reason"="update"`, "the handler is for other reasons"},
		},
		{name: "B-62 only conditions have changed", handler: invoke.Handler{Criteria: on("update")}, diff: diff.Diff{ready, ready}, log: []string{"only conditions"}},
		{name: "B-62 conditions and other fields have changed", handler: invoke.Handler{Criteria: on("update")}, diff: diff.Diff{ready, size}, want: true},
		{name: "B-62 only conditions have changed, for a handler with a field", handler: invoke.Handler{Criteria: onField()}, diff: diff.Diff{ready}, want: true},
		{
			name: "B-62 only conditions have changed, for another reason", handler: invoke.Handler{Criteria: on("delete")}, reason: "delete",
			diff: diff.Diff{ready}, want: true,
		},
		{name: "B-31 the change is not known", handler: invoke.Handler{Criteria: on("update")}, want: true},
		{name: "FLT-07 a change for the handler", handler: invoke.Handler{Criteria: on("update"), Changed: yes}, diff: diff.Diff{size}, want: true},
		{
			name: "FLT-07 no change for the handler", handler: invoke.Handler{Criteria: on("update"), Changed: no}, diff: diff.Diff{size},
			log: []string{"the fields that the filters select have not changed"},
		},
		{
			name: "FLT-01 the predicate is not called for another reason", handler: invoke.Handler{Criteria: on("create"), Changed: panics},
			diff: diff.Diff{size}, log: []string{"the handler is for other reasons"},
		},
		{
			name: "FLT-01 the predicate is not called if only conditions have changed", handler: invoke.Handler{Criteria: on("update"), Changed: panics},
			diff: diff.Diff{ready}, log: []string{"only conditions"},
		},
		{
			name: "B-26 the predicate panics", handler: invoke.Handler{Criteria: on("update"), Changed: panics}, diff: diff.Diff{size}, isErr: true,
			log: []string{"panic: oh", `"stack"=`, "match_test.go"},
		},
		{
			name: "FLT-13 other predicates are not called again", handler: invoke.Handler{Criteria: on("update"), When: []func(request) bool{panics}},
			diff: diff.Diff{size}, want: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			c := match.Cause{Reason: "update"}
			if test.reason != "" {
				c.Reason = test.reason
			}
			if got := plan.MatchCause(logTo(&lines), "fn", &test.handler, viewOf(test.diff), c, input).Accepts(); got != test.want {
				t.Errorf("MatchCause = %t, want %t", got, test.want)
			}
			if test.isErr && len(lines) == 2 { // a mismatch is logged, too
				checkLog(t, lines[1:], false, `"a filter of the handler panicked"`)
				lines = lines[:1]
			}
			checkLog(t, lines, test.isErr, test.log...)
		})
	}
}

func TestMatching(t *testing.T) {
	handlers := register(t, named{"c", invoke.Handler{}},
		named{"mismatch", invoke.Handler{When: []func(request) bool{no}}},
		named{"panic", invoke.Handler{When: []func(request) bool{panics}}},
		named{"a", invoke.Handler{When: []func(request) bool{yes}}}, named{"b", invoke.Handler{Criteria: on("create")}})
	equal(t, "HND-10 B-26 matching handlers", plan.Matching(logr.Discard(), handlers, viewOf(nil), match.Input{}), []string{"c", "a", "b"})
	equal(t, "HND-10 matching handlers of none", plan.Matching(logr.Discard(), register(t), viewOf(nil), match.Input{}), []string(nil))
}

func TestSelect(t *testing.T) {
	handlers := register(t,
		named{"resume", invoke.Handler{Criteria: on("resume")}},
		named{"update", invoke.Handler{Criteria: on("update")}},
		named{"both", invoke.Handler{Criteria: on("update", "resume")}},
		named{"create", invoke.Handler{Criteria: on("create")}},
		named{"create or resume", invoke.Handler{Criteria: on("create", "resume")}},
		named{"delete", invoke.Handler{Criteria: on("delete")}},
		named{"resume if deleted", invoke.Handler{Criteria: match.Criteria{Reasons: []string{"resume"}, EvenIfDeleted: true}}},
	)
	for _, test := range []struct {
		name     string
		cause    match.Cause
		matching []string // default: all
		want     plan.Selection
	}{
		{
			name: "CAUSE-25 an update, seen in a listing", cause: match.Cause{Reason: "update", Initial: true},
			want: plan.Selection{
				Selected: []string{"resume", "update", "both", "create or resume", "resume if deleted"},
				Resuming: []string{"resume", "create or resume", "resume if deleted"},
			},
		},
		{
			name: "CAUSE-21 an update", cause: match.Cause{Reason: "update"},
			want: plan.Selection{Selected: []string{"update", "both"}},
		},
		{
			name: "CAUSE-05 a resumption", cause: match.Cause{Reason: "resume", Initial: true},
			want: plan.Selection{Selected: []string{"resume", "both", "create or resume", "resume if deleted"}},
		},
		{
			name: "CAUSE-04 CAUSE-24 a creation", cause: match.Cause{Reason: "create"},
			want: plan.Selection{Selected: []string{"create", "create or resume"}},
		},
		{
			name: "CAUSE-23 a deletion, seen in a listing", cause: match.Cause{Reason: "delete", Initial: true, Deleting: true},
			want: plan.Selection{Selected: []string{"delete", "resume if deleted"}, Resuming: []string{"resume if deleted"}},
		},
		{
			name: "FLT-12 handlers whose filters do not match are not selected", cause: match.Cause{Reason: "update", Initial: true},
			matching: []string{"both", "resume"}, want: plan.Selection{Selected: []string{"both", "resume"}, Resuming: []string{"resume"}},
		},
		{name: "CAUSE-06 no cause", cause: match.Cause{Reason: "noop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.matching == nil {
				test.matching = handlers.IDs()
			}
			got := plan.Select(logr.Discard(), handlers, test.matching, viewOf(nil), test.cause, match.Input{})
			equal(t, "selection", got, test.want)
		})
	}
}
