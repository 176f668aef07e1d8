package commit_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// generation returns an object with a generation, and with conditions of the operator and of another client.
func generation(obj *unstructured.Unstructured, number int64, conditions ...any) *unstructured.Unstructured {
	obj.Object["metadata"].(m)["generation"] = number
	if len(conditions) > 0 {
		obj.Object["status"] = m{"conditions": conditions}
	}
	return obj
}

// condition returns a condition that is observed at a generation.
func condition(kind, status string, observed int) m {
	return m{"type": kind, "status": status, "observedGeneration": int64(observed)}
}

func withConditions(list ...any) patch.MergePatch {
	return patch.MergePatch{"status": m{"conditions": list}}
}

// If handlers change the spec, and the status says which generation they have observed, the spec is written first. The status then describes the new
// generation, and the records are written last.
func TestWrite_RaisesObservedGeneration(t *testing.T) {
	foreign := condition("Foreign", "True", 3)
	list := []any{foreign, condition("Ready", "True", 3)}
	const specFirst, last = "spec.own +last-handled-configuration +pinned-configuration", "+last-handled-configuration -pinned-configuration"
	for _, test := range []struct {
		name string
		obj  *unstructured.Unstructured
		do   func(o *operator, s *commit.Session)
		want []string
		// after are the observed generations of the conditions, and the one in the status, on the server.
		after string
	}{
		{
			"a new condition", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
			},
			[]string{specFirst, "/status status.conditions", last}, "Foreign:3 Ready:4",
		},
		{
			"no condition and no generation in the status", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), phase("Up")))
				o.finish(s, "b")
			},
			[]string{"/status status.phase", "spec.own +last-handled-configuration"}, "Foreign:3",
		},
		{
			"no change of the spec", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(patch.MergePatch{"metadata": m{"labels": m{"a": "x"}}}, withConditions(list...)))
				o.finish(s, "b")
			},
			[]string{"/status status.conditions", "metadata.labels.a +last-handled-configuration"}, "Foreign:3 Ready:3",
		},
		{
			"a condition that the operator has set before", generation(handled(1, sized(2)), 3, list...),
			func(o *operator, s *commit.Session) {
				o.committer.Observed.AddPlaces(withConditions(condition("Ready", "True", 1)).Observations(nil))
				o.call(s, "a", succeeds, own("x"))
				o.finish(s, "b")
			},
			[]string{specFirst, "/status status.conditions", last}, "Foreign:3 Ready:4",
		},
		{
			"a condition of an older generation", generation(handled(1, sized(2)), 3, condition("Ready", "True", 2)),
			func(o *operator, s *commit.Session) {
				o.committer.Observed.AddPlaces(withConditions(condition("Ready", "True", 1)).Observations(nil))
				o.call(s, "a", succeeds, own("x"))
				o.finish(s, "b")
			},
			[]string{"spec.own +last-handled-configuration"}, "Ready:2",
		},
		{
			"a field of the status", generation(handled(1, sized(2)), 3),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), patch.MergePatch{"status": m{"observedGeneration": int64(3)}}))
				o.finish(s, "b")
			},
			[]string{specFirst, "/status status.observedGeneration", last}, "4",
		},
		{
			"a handler is left", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
			},
			[]string{specFirst, "/status status.conditions", "+a +b +pinned-configuration"}, "Foreign:3 Ready:4",
		},
		{
			"a reconcile without a cause", generation(handled(1, sized(1)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", progress.Outcome{}, patch.Merge(own("x"), withConditions(list...)))
			},
			[]string{"spec.own +last-handled-configuration", "/status status.conditions"}, "Foreign:3 Ready:4",
		},
		{
			"another client has changed the spec before", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
				o.edit(patch.MergePatch{"spec": m{"foreign": "x"}})
			},
			[]string{specFirst, specFirst, "/status status.conditions", last}, "Foreign:3 Ready:3",
		},
		{
			"another client has changed the status before", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
				o.edit(withConditions(foreign, condition("Other", "True", 3)))
			},
			[]string{specFirst, specFirst, "/status status.conditions", last}, "Foreign:3 Other:3 Ready:4",
		},
		{
			"another client changes the spec in between", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
				o.after = func(r request) error {
					if r.subresource == "" && o.field("spec", "foreign") == nil {
						o.edit(patch.MergePatch{"spec": m{"foreign": "x"}})
					}
					return nil
				}
			},
			[]string{specFirst, "/status status.conditions", "/status status.conditions", last}, "Foreign:3 Ready:4",
		},
		{
			"the API server alters the change", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
				o.transforms = func(content m) { content["spec"].(m)["own"] = "altered" }
			},
			[]string{specFirst, "/status status.conditions", last}, "Foreign:3 Ready:4",
		},
		{
			"the API server drops the change", generation(handled(1, sized(2)), 3, foreign),
			func(o *operator, s *commit.Session) {
				o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(list...)))
				o.finish(s, "b")
				o.transforms = func(content m) { delete(content["spec"].(m), "own") }
			},
			[]string{specFirst, "/status status.conditions", last}, "Foreign:3 Ready:3",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), test.obj)
			s := o.begin()
			test.do(o, s)
			o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "observed generations", o.observed(), test.after)
			equal(t, "own versions of the object", o.ownVersions[len(o.ownVersions)-1], o.object().GetResourceVersion())
			if reason := o.begin().Cause.Reason; o.field("spec", "foreign") == nil && reason != cause.Noop && s.IsFinished() {
				t.Errorf("the change of the handler causes %q", reason)
			}
		})
	}
}

// observed returns the observed generations of the object on the server.
func (o *operator) observed() string {
	var all []string
	list, _ := o.field("status", "conditions").([]any)
	for _, c := range list {
		all = append(all, fmt.Sprint(c.(m)["type"], ":", c.(m)["observedGeneration"]))
	}
	if number := o.field("status", "observedGeneration"); number != nil {
		all = append(all, fmt.Sprint(number))
	}
	return strings.Join(all, " ")
}

// The outcome of the first request is unknown, or the process ends after it.
func TestWrite_RaisesObservedGeneration_AfterFaults(t *testing.T) {
	begin := func(t *testing.T) (*operator, *commit.Session) {
		o := newOperator(t, defaults(), generation(handled(1, sized(2)), 3))
		s := o.begin()
		o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(condition("Ready", "True", 3))))
		return o, o.finish(s, "b")
	}
	for name, fault := range map[string]func(o *operator){
		"the response is lost":       func(o *operator) { o.after = once(containing("spec.own", errLost)) },
		"the request is lost":        func(o *operator) { o.before = once(containing("spec.own", errLost)) },
		"the server is busy":         func(o *operator) { o.before = once(containing("spec.own", errUnavailable)) },
		"the status request is lost": func(o *operator) { o.before = once(containing("status.conditions", errLost)) },
		"the last request is lost":   func(o *operator) { o.before = once(containing("-pinned-configuration", errLost)) },
	} {
		t.Run(name, func(t *testing.T) {
			o, s := begin(t)
			fault(o)
			if _, err := o.tryWrite(s); err == nil || o.pending != s {
				t.Fatalf("the error is %v, and the pending session %v", err, o.pending)
			}
			o.write(s)
			equal(t, "observed generations", o.observed(), "Ready:4")
			equal(t, "next reason", o.begin().Cause.Reason, cause.Noop)
		})
	}
	t.Run("the response is lost, and another client changes the spec", func(t *testing.T) {
		o, s := begin(t)
		o.after = once(containing("spec.own", errLost))
		if _, err := o.tryWrite(s); err == nil {
			t.Fatal("Write returned no error")
		}
		o.edit(patch.MergePatch{"spec": m{"foreign": "x"}})
		o.write(s)
		equal(t, "observed generations", o.observed(), "Ready:3")
	})
	for _, path := range []string{"status.conditions", "-pinned-configuration"} {
		t.Run("a crash before the request with "+path, func(t *testing.T) {
			o, s := begin(t)
			o.before = once(containing(path, errLost))
			if _, err := o.tryWrite(s); err == nil {
				t.Fatal("Write returned no error")
			}
			o.memory = commit.Memory{}
			next := o.begin()
			equal(t, "the change of the handler is no update", next.Cause.Diff.String(), s.Cause.Diff.String())
			equal(t, "StalePin", next.Cause.StalePin, false)
			equal(t, "handlers are called again", next.Records.Due(now), []string{"a", "b"})
			o.call(next, "a", succeeds, withConditions(condition("Ready", "True", 4)))
			o.finish(next, "b")
			o.write(next)
			equal(t, "observed generations", o.observed(), "Ready:4")
			equal(t, "next reason", o.begin().Cause.Reason, cause.Noop)
		})
	}
}

// If the API server accepts the spec and rejects the status, the change of the spec is reverted.
func TestWrite_RaisesObservedGeneration_RevertsSpecOfRejectedStatus(t *testing.T) {
	o := newOperator(t, defaults(), generation(handled(1, sized(2)), 3))
	o.before = rejectsValue("bad", "status", "phase")
	s := o.begin()
	o.call(s, "a", succeeds, patch.Merge(patch.MergePatch{"spec": m{"a": "x"}}, withConditions(condition("Ready", "True", 3))))
	o.call(s, "b", succeeds, patch.Merge(own("x"), phase("bad")))
	o.finish(s)
	o.write(s)
	equal(t, "spec", o.field("spec"), any(m{"size": int64(2), "a": "x"}))
	equal(t, "the condition is of the present generation", o.observed(), fmt.Sprint("Ready:", o.object().GetGeneration()))
	next := o.begin()
	equal(t, "next reason", next.Cause.Reason, cause.Update)
	equal(t, "old state", next.Cause.Old, m{"spec": m{"size": int64(1), "a": "x"}})
	equal(t, "handled state", next.Cause.New, m{"spec": m{"size": int64(2), "a": "x"}})
	if record := next.Records.Record("b"); record.Success || record.Retries != 1 {
		t.Errorf("the record of the rejected attempt is %+v", record)
	}
}

// If the API server rejects the change of one handler, the conditions of the others describe the generation that their changes have made.
func TestWrite_RaisesObservedGeneration_AfterRejectedPatch(t *testing.T) {
	o := newOperator(t, withThird(), generation(handled(1, sized(2)), 3))
	o.before = rejectsValue("bad", "spec", "b")
	s := o.begin()
	o.call(s, "a", succeeds, patch.Merge(patch.MergePatch{"spec": m{"a": "x"}}, withConditions(condition("A", "True", 3))))
	o.call(s, "b", succeeds, patch.MergePatch{"spec": m{"b": "bad"}})
	o.call(s, "c", succeeds, patch.Merge(patch.MergePatch{"spec": m{"c": "x"}}, withConditions(condition("A", "True", 3), condition("C", "True", 3))))
	o.write(s)
	equal(t, "spec", o.field("spec"), any(m{"size": int64(2), "a": "x", "c": "x"}))
	equal(t, "generation", o.object().GetGeneration(), int64(5))
	equal(t, "observed generations", o.observed(), "A:5 C:5")
}

// The progress can also be stored in the status, or outside of the object.
func TestWrite_RaisesObservedGeneration_InOtherStores(t *testing.T) {
	change := patch.Merge(own("x"), withConditions(condition("Ready", "True", 3)))
	check := func(t *testing.T, o *operator) {
		t.Helper()
		s := o.begin()
		o.call(s, "a", succeeds, change)
		o.write(s)
		equal(t, "observed generations", o.observed(), "Ready:4")
		next := o.begin()
		equal(t, "the change of the handler is no update", next.Cause.Diff.String(), s.Cause.Diff.String())
		equal(t, "StalePin", next.Cause.StalePin, false)
		equal(t, "handlers that are left", next.Records.Due(now), []string{"b"})
		o.finish(next, "b")
		o.write(next)
		equal(t, "observed generations at the end", o.observed(), "Ready:4")
		equal(t, "next reason", o.begin().Cause.Reason, cause.Noop)
	}
	for name, b := range map[string]*commit.Builder{
		"records in the status":              newBuilder(progress.Status(""), progress.AnnotationBaseline("")),
		"records and baseline in the status": newBuilder(progress.Status(""), progress.StatusBaseline("")),
	} {
		t.Run(name, func(t *testing.T) {
			obj := generation(object(sized(2)), 3)
			b.Baseline.Store(obj, []byte(text(sized(1))))
			check(t, newOperator(t, b, obj))
		})
	}
	t.Run("a remote", func(t *testing.T) {
		o, _ := newRemoteOperator(t, generation(handled(1, sized(2)), 3))
		check(t, o)
	})
}

// The first request for a copy of another object also removes the state of that object.
func TestWrite_RaisesObservedGeneration_OfCopiedObject(t *testing.T) {
	b := defaults()
	b.Stamps = progress.StampsOf(progress.AnnotationBaseline(""), progress.Smart())
	obj := generation(object(sized(2), pinKey, "{}", b.Stamps.Key("another-uid"), essence.NoBaseline), 3)
	store(t, b, obj, map[string]progress.Record{"a": {Started: now, Stopped: now, Purpose: "create", Success: true}})
	o := newOperator(t, b, obj)
	s := o.begin()
	equal(t, "reason", s.Cause.Reason, cause.Create)
	o.call(s, "a", succeeds, patch.Merge(own("x"), withConditions(condition("Ready", "True", 3))))
	o.before = once(containing("status.conditions", errLost)) // the process ends after the first request
	if _, err := o.tryWrite(s); err == nil {
		t.Fatal("Write returned no error")
	}
	o.memory = commit.Memory{}
	next := o.begin()
	equal(t, "reason after a crash", next.Cause.Reason, cause.Create)
	equal(t, "handlers are called again", next.Records.Due(now), []string{"a", "b"})
	o.call(next, "a", succeeds, withConditions(condition("Ready", "True", 4)))
	o.finish(next, "b")
	o.write(next)
	equal(t, "observed generations", o.observed(), "Ready:4")
	equal(t, "next reason", o.begin().Cause.Reason, cause.Noop)
}
