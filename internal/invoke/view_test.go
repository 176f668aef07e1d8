package invoke_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type m = map[string]any

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if difference := cmp.Diff(want, got, cmpopts.EquateEmpty()); difference != "" {
		t.Errorf("%s (-want +got):\n%s", what, difference)
	}
}

func widget(size int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: m{"kind": "Widget", "spec": m{"size": int64(size)}}}
}

// forField returns a handler for a field that receives the changes of updates.
func forField(path ...string) invoke.Handler {
	return invoke.Handler{Criteria: match.Criteria{Reasons: []string{"update"}, Filters: match.Filters{Field: &match.FieldFilter{Path: path}}}}
}

// The requests of predicates depend on the object of their view.
func TestPredicateRequest_OtherObject(t *testing.T) {
	view := &invoke.View{Object: widget(1), Reason: "update"}
	first := view.PredicateRequest()
	other := *view
	other.Object = widget(2)
	equal(t, "object for predicates", other.PredicateRequest().Object, client.Object(widget(2)))
	equal(t, "object of the handler", other.NewRequest("a", &invoke.Handler{}, progress.Attempt{}).Object, client.Object(widget(2)))
	equal(t, "reason", other.Reason, "update")
	if view.PredicateRequest() != first {
		t.Error("the original view has another request for predicates")
	}
}

func TestNewRequest_CopiesObjects(t *testing.T) {
	old, handled := widget(1), widget(2)
	view := &invoke.View{
		Object: widget(3), Reason: "update",
		Old:     func() client.Object { return old.DeepCopy() },
		Handled: func() client.Object { return handled.DeepCopy() },
	}
	change := func(req *invoke.Request) {
		for _, obj := range []client.Object{req.Object, req.Old, req.Handled} {
			obj.(*unstructured.Unstructured).Object["spec"].(m)["size"] = int64(9)
		}
	}
	change(view.PredicateRequest())
	change(view.NewRequest("a", &invoke.Handler{}, progress.Attempt{}))
	req := view.NewRequest("b", &invoke.Handler{}, progress.Attempt{})
	equal(t, "KW-03 object", req.Object, client.Object(widget(3)))
	equal(t, "KW-03 old object", req.Old, client.Object(widget(1)))
	equal(t, "KW-03 handled object", req.Handled, client.Object(widget(2)))
	equal(t, "KW-03 object of the view", view.Object, client.Object(widget(3)))
}

func TestNewRequest(t *testing.T) {
	var notified []string
	view := &invoke.View{
		Object: widget(1), Reason: "update", Event: "MODIFIED", OldUnknown: true,
		ConditionOptions: []conditions.Option{nil},
		Latest:           func() client.Object { return widget(5) },
		Notify:           func(_ client.Object, _, reason, _, _ string, _ ...any) { notified = append(notified, reason) },
	}
	attempt := progress.Attempt{Number: 2, Started: time.Unix(1, 0), Last: "boom"}
	req := view.NewRequest("fn", &invoke.Handler{Criteria: match.Criteria{Reasons: []string{"update"}}}, attempt)
	equal(t, "id", req.ID, "fn")
	equal(t, "reason", req.Reason, "update")
	equal(t, "event", req.Event, "MODIFIED")
	equal(t, "attempt", req.Attempt, attempt)
	equal(t, "B-31 OldKnown", req.OldKnown, false)
	equal(t, "ReceivesDiff", req.ReceivesDiff, true)
	equal(t, "number of condition options", len(req.ConditionOptions), 1)
	equal(t, "latest object", req.Latest(), client.Object(widget(5)))
	req.Notify(nil, "Normal", "Done", "", "")
	equal(t, "reasons of Events", notified, []string{"Done"})
	if req.Old != nil || req.Handled != nil {
		t.Errorf("Old = %v, Handled = %v, want neither", req.Old, req.Handled)
	}

	view = &invoke.View{Object: widget(1), Reason: "create"}
	req = view.NewRequest("fn", &invoke.Handler{Criteria: match.Criteria{Reasons: []string{"create", "update"}}}, progress.Attempt{})
	equal(t, "OldKnown of a new object", req.OldKnown, true)
	equal(t, "ReceivesDiff of a creation", req.ReceivesDiff, false)
}

// The predicates of all handlers share one request.
func TestPredicateRequest(t *testing.T) {
	view := &invoke.View{Object: widget(1), Reason: "update", Event: "ADDED", OldUnknown: true, Old: func() client.Object { return widget(2) }}
	first := view.PredicateRequest()
	equal(t, "FLT-10 reason", first.Reason, "update")
	equal(t, "FLT-10 event", first.Event, "ADDED")
	equal(t, "FLT-10 OldKnown", first.OldKnown, false)
	equal(t, "FLT-10 old object", first.Old, client.Object(widget(2)))
	if view.PredicateRequest() != first {
		t.Error("FLT-10: PredicateRequest creates a second request")
	}
	if view.NewRequest("fn", &invoke.Handler{}, progress.Attempt{}) == first {
		t.Error("FLT-10: a handler receives the request of the predicates")
	}
}

func TestNewRequest_ReducesDiffToField(t *testing.T) {
	before := m{"spec": m{"size": int64(1), "mode": "auto"}}
	after := m{"spec": m{"size": int64(2), "limits": m{"cpu": "1"}}}
	whole := diff.Of(before, after)
	change := diff.Item{Op: diff.Change, Old: int64(1), New: int64(2)}
	for _, test := range []struct {
		name    string
		handler invoke.Handler
		want    diff.Diff
		field   [2]any
	}{
		{"DIFF-09 no field", invoke.Handler{}, whole, [2]any{}},
		{"DIFF-08 a changed field", forField("spec", "size"), diff.Diff{change}, [2]any{int64(1), int64(2)}},
		{
			"DIFF-08 a removed field", forField("spec", "mode"), diff.Diff{{Op: diff.Remove, Old: "auto"}}, [2]any{"auto", nil},
		},
		{
			"DIFF-07 a field below an added one", forField("spec", "limits", "cpu"), diff.Diff{{Op: diff.Add, New: "1"}}, [2]any{nil, "1"},
		},
		{"DIFF-08 an absent field", forField("spec", "other"), nil, [2]any{}},
		{"DIFF-08 a field with fields", forField("spec"), diff.Of(before["spec"], after["spec"]), [2]any{before["spec"], after["spec"]}},
	} {
		t.Run(test.name, func(t *testing.T) {
			view := &invoke.View{Object: widget(2), Reason: "update", Before: before, After: after, Diff: whole}
			req := view.NewRequest("fn", &test.handler, progress.Attempt{})
			equal(t, "diff", req.Diff, test.want)
			equal(t, "field", req.Field, test.field)
			equal(t, "diff of the view", view.Diff, diff.Of(before, after))
			equal(t, "FLT-10 diff of predicates", view.PredicateRequest().Diff, whole)
		})
	}
}

// Conditions are not fields of the object. Only handlers for conditions receive their transitions.
func TestNewRequest_RemovesConditionsFromDiff(t *testing.T) {
	statuses := func(ready string) m { return m{"Ready": ready} }
	before := m{"spec": m{"size": int64(1)}, essence.ConditionsKey: statuses("False")}
	after := m{"spec": m{"size": int64(2)}, essence.ConditionsKey: statuses("True")}
	size := diff.Item{Op: diff.Change, Path: diff.Path{"spec", "size"}, Old: int64(1), New: int64(2)}
	for _, test := range []struct {
		name          string
		before, after m
		handler       invoke.Handler
		want          diff.Diff
	}{
		{"B-62 a transition and a field", before, after, invoke.Handler{}, diff.Diff{size}},
		{"B-62 only a transition", before, m{"spec": before["spec"], essence.ConditionsKey: statuses("True")}, invoke.Handler{}, nil},
		{"B-62 a creation", nil, after, invoke.Handler{}, diff.Diff{{Op: diff.Add, New: m{"spec": m{"size": int64(2)}}}}},
		{"B-62 a creation without conditions", nil, m{"spec": m{}}, invoke.Handler{}, diff.Diff{{Op: diff.Add, New: m{"spec": m{}}}}},
		{
			"B-62 a nested field of the same name", m{"spec": m{}}, m{"spec": m{"x": m{essence.ConditionsKey: "y"}}}, invoke.Handler{},
			diff.Diff{{Op: diff.Add, Path: diff.Path{"spec", "x"}, New: m{essence.ConditionsKey: "y"}}},
		},
		{
			"B-62 a handler for a condition", before, after, forField(essence.ConditionsKey, "Ready"),
			diff.Diff{{Op: diff.Change, Old: "False", New: "True"}},
		},
		{
			"B-62 a handler for a condition, at a creation", nil, after, forField(essence.ConditionsKey, "Ready"), diff.Diff{{Op: diff.Add, New: "True"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			view := &invoke.View{Object: widget(2), Reason: "update", Before: test.before, After: test.after}
			if test.before == nil {
				view.Diff = diff.Of(nil, test.after)
			} else {
				view.Diff = diff.Of(test.before, test.after)
			}
			unchanged := append(diff.Diff(nil), view.Diff...)
			equal(t, "diff", view.NewRequest("fn", &test.handler, progress.Attempt{}).Diff, test.want)
			equal(t, "diff of the view", view.Diff, unchanged)
			if test.before == nil && test.after[essence.ConditionsKey] != nil && unchanged[0].New.(m)[essence.ConditionsKey] == nil {
				t.Error("NewRequest removes the conditions from the essence")
			}
		})
	}
}

func TestIsOfConditions(t *testing.T) {
	for _, test := range []struct {
		name string
		path diff.Path
		want bool
	}{
		{"B-62 a condition", diff.Path{essence.ConditionsKey, "Ready"}, true},
		{"B-62 all conditions", diff.Path{essence.ConditionsKey}, true},
		{"B-62 the whole object", nil, false},
		{"B-62 another field", diff.Path{"spec"}, false},
		{"B-62 a nested field of the same name", diff.Path{"spec", essence.ConditionsKey}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := invoke.IsOfConditions(diff.Item{Path: test.path}); got != test.want {
				t.Errorf("IsOfConditions = %t, want %t", got, test.want)
			}
		})
	}
}
