package commit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const updateState = "+a +b +pinned-configuration"

// overlaid returns an operator whose progress of an update was rejected. Handler a has succeeded.
func overlaid(t *testing.T) *operator {
	t.Helper()
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.before = containing("+a", errInvalid)
	s := o.begin()
	o.call(s, "a", succeeds, nil)
	o.write(s)
	equal(t, "rejected requests", o.sent(), []string{updateState})
	if o.memory.Overlay == nil {
		t.Fatal("no overlay is kept")
	}
	o.before = nil
	return o
}

// If the API server rejects the progress, it is kept in memory. Handlers do not wait, and are not called again.
func TestWrite_KeepsRejectedProgressInMemory(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.before = containing("+a", errInvalid)
	s := o.begin()
	o.call(s, "a", succeeds, phase("Up"))
	o.write(s)
	equal(t, "B-31 requests", o.sent(), []string{"/status status.phase", updateState, "/status status.phase", updateState})
	equal(t, "phase", o.field("status", "phase"), any("Up"))
	equal(t, "Events", o.warnings, []string{commit.ProgressNotStored})
	equal(t, "message", o.memory.Overlay.Message, "the API server rejects the change: "+errInvalid.Error())
	equal(t, "content for which the progress was rejected", o.memory.Overlay.Content, o.content)
	equal(t, "record in memory", recordOf(t, o.committer.Builder, s.Draft.Base().(*unstructured.Unstructured), "a").Success, true)
	equal(t, "object of the API server", s.Draft.Stored().Content, o.content)
	equal(t, "baselines", o.baselines, []string{})

	next := o.begin()
	equal(t, "reason", next.Cause.Reason, cause.Update)
	equal(t, "B-14 a is not called again", next.Records.Due(now), []string{"b"})
	equal(t, "handled state", next.Cause.New, sized(2))
	equal(t, "leftovers", next.HasLeftovers(), false)
}

// Rejected progress is sent again when it or the object has changed.
func TestWrite_SendsOverlayAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		edit patch.MergePatch // by another client
		do   func(o *operator, s *commit.Session)
		want []string
		kept bool
	}{
		{"B-31 nothing has changed", nil, func(*operator, *commit.Session) {}, nil, true},
		{
			"B-31 another attempt of a handler", nil,
			func(o *operator, s *commit.Session) {
				o.call(s, "b", progress.Outcome{Err: errLost, Delay: time.Hour, Attempted: true}, nil)
			},
			[]string{updateState}, false,
		},
		{"B-31 the end of the cycle", nil, func(o *operator, s *commit.Session) { o.finish(s, "b") }, []string{"+last-handled-configuration"}, false},
		{"B-31 another client has changed the spec", patch.MergePatch{"spec": m{"foreign": "x"}}, func(*operator, *commit.Session) {}, []string{updateState}, false},
		{"B-31 another client has changed the labels", patch.MergePatch{"metadata": m{"labels": m{"x": "y"}}}, func(*operator, *commit.Session) {}, []string{updateState}, false},
		{"B-31 another client has changed the status", phase("Foreign"), func(*operator, *commit.Session) {}, nil, true},
		{
			"B-31 another client has changed the finalizers", patch.MergePatch{"metadata": m{"finalizers": []any{"other"}}}, func(*operator, *commit.Session) {},
			nil, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := overlaid(t)
			if test.edit != nil {
				o.edit(test.edit)
			}
			s := o.begin()
			test.do(o, s)
			o.write(s)
			equal(t, "requests", o.sent(), test.want)
			equal(t, "kept in memory", o.memory.Overlay != nil, test.kept)
			if !test.kept {
				equal(t, "object of the API server", s.Draft.Base().(*unstructured.Unstructured), o.object())
				equal(t, "log", slices.ContainsFunc(o.logs, func(line string) bool { return strings.Contains(line, "is stored on the object") }), true)
			}
			equal(t, "Events", o.warnings, []string{commit.ProgressNotStored})
		})
	}
}

// Progress that is rejected again is kept with what was added to it, and reported once.
func TestWrite_KeepsOverlayThatIsRejectedAgain(t *testing.T) {
	o := overlaid(t)
	o.before = containing("+a", errInvalid)
	s := o.begin()
	o.call(s, "b", progress.Outcome{Err: errLost, Delay: time.Hour, Attempted: true}, nil)
	o.write(s)
	equal(t, "requests", o.sent(), []string{updateState})
	equal(t, "B-31 Events", o.warnings, []string{commit.ProgressNotStored})
	next := o.begin()
	equal(t, "attempts of b", next.Records.Record("b").Retries, 1)
	equal(t, "success of a", next.Records.Record("a").Success, true)
	o.write(next)
	equal(t, "requests without a change", o.sent(), []string{})
}

// Another client that changes the stored progress has the last word.
func TestUseOverlay_DropsOverlayOfChangedProgress(t *testing.T) {
	o := overlaid(t)
	o.edit(patch.MergePatch{"metadata": m{"annotations": m{baselineKey: text(sized(2)) + "\n"}}})
	s := o.begin()
	if o.memory.Overlay != nil {
		t.Error("the overlay is kept")
	}
	equal(t, "B-31 reason", s.Cause.Reason, cause.Noop)
}

// A deletion does not wait until the API server accepts the framework's part.
func TestWrite_ReleasesObjectWithRejectedProgress(t *testing.T) {
	o := newOperator(t, defaults(), store(t, defaults(), deleted(handled(1, sized(1))), map[string]progress.Record{"a": waiting("delete")}))
	o.before = containing("-a", errInvalid)
	s := o.finish(o.begin(), "a", "b")
	o.write(s)
	equal(t, "B-31 requests", o.sent(), []string{"metadata.finalizers -a", "metadata.finalizers"})
	if o.content != nil || !o.memory.FinalizerRemoved {
		t.Errorf("the object is %v, FinalizerRemoved = %t", o.content, o.memory.FinalizerRemoved)
	}
}

// The status of the framework's part may be stored although the other fields are rejected.
func TestWrite_KeepsRestOfPartlyStoredProgress(t *testing.T) {
	b := newBuilder(progress.Status(""), progress.AnnotationBaseline(""))
	o := newOperator(t, b, object(sized(1)))
	o.before = containing("/status", errInvalid)
	s := o.begin()
	o.call(s, "a", succeeds, nil)
	o.write(s)
	equal(t, "PROG-07 requests", o.sent(), []string{"+pinned-configuration", "/status status.kopf"})
	if o.object().GetAnnotations()[pinKey] == "" {
		t.Error("the pin is not stored")
	}
	equal(t, "a is not called again", o.begin().Records.Due(now), []string{"b"})
	equal(t, "content for which the progress was rejected", o.memory.Overlay.Content, o.content)
}

// The condition that reports the overlay is written in the same write, and removed in the write that stores the progress.
func TestWrite_ReportsOverlay(t *testing.T) {
	o := newOperator(t, defaults(), handled(1, sized(2)))
	o.report = func(s *commit.Session) {
		doc := patch.MergePatch{"status": m{"notStored": o.memory.Overlay != nil}}.Unapplied(s.Draft.Current().Content)
		if !s.Draft.HasChanges() {
			s.Draft.Add(&commit.HandlerPatch{Report: true, Patch: doc, Base: s.Draft.Current().Content})
		}
	}
	o.before = containing("+a", errInvalid)
	s := o.begin()
	o.call(s, "a", succeeds, nil)
	o.write(s)
	equal(t, "B-60 reported", o.field("status", "notStored"), any(true))
	o.before = nil
	o.write(o.finish(o.begin(), "b"))
	equal(t, "B-60 reported after the progress is stored", o.field("status", "notStored"), any(false))
}

// The baseline of altered values may be rejected like any other progress.
func TestWrite_KeepsRejectedCorrectionInMemory(t *testing.T) {
	o := newOperator(t, defaults(), object(sized(1)))
	o.transforms = func(content m) { content["spec"].(m)["own"] = "altered" }
	o.before = func(r request) error {
		if r.String() == "+last-handled-configuration" {
			return errInvalid
		}
		return nil
	}
	s := o.begin()
	o.call(s, "a", succeeds, own("x"))
	o.finish(s, "b")
	o.write(s)
	equal(t, "requests", o.sent(), []string{"spec.own +last-handled-configuration", "+last-handled-configuration"})
	if o.memory.Overlay == nil {
		t.Fatal("no overlay is kept")
	}
	equal(t, "B-13 next reason", o.begin().Cause.Reason, cause.Noop)
}

// An object without a cause is written again if its rejected progress may be accepted now.
func TestHasLeftovers_OfOverlay(t *testing.T) {
	for _, test := range []struct {
		name string
		edit patch.MergePatch
		want bool
	}{
		{"B-31 no change", nil, false},
		{"B-31 a change of the status", phase("Foreign"), false},
		{"B-31 a change of the owners", patch.MergePatch{"metadata": m{"ownerReferences": []any{}}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := newOperator(t, defaults(), object(sized(1)))
			o.before = containing("+last-handled-configuration", errInvalid)
			o.write(o.finish(o.begin(), "a", "b"))
			o.before = nil
			if test.edit != nil {
				o.edit(test.edit)
			}
			o.sent()
			s := o.begin()
			equal(t, "reason", s.Cause.Reason, cause.Noop)
			equal(t, "leftovers", s.HasLeftovers(), test.want)
			equal(t, "at rest", s.IsAtRest(), !test.want)
			o.write(s)
			equal(t, "stored", len(o.sent()) > 0, test.want)
			equal(t, "kept in memory", o.memory.Overlay != nil, !test.want)
		})
	}
}
