package commit_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// After the accepted first request of a rejected correction, the session continues with the object of its response.
func TestWrite_ContinuesAfterPartlyStoredCorrection(t *testing.T) {
	b := newBuilder(progress.Annotations(""), progress.StatusBaseline(""))
	obj := object(sized(2))
	b.Baseline.Store(obj, []byte(text(sized(1))))
	o := newOperator(t, b, obj)
	o.transforms = func(content m) {
		if spec := content["spec"].(m); spec["own"] != nil {
			spec["own"] = "altered"
		}
	}
	o.before = func(r request) error {
		if r.String() == "+pinned-configuration" {
			return errInvalid
		}
		return nil
	}
	s := o.begin()
	o.call(s, "a", succeeds, own("x"))
	o.write(s)
	if requests := o.sent(); requests[len(requests)-1] != "+pinned-configuration" {
		t.Errorf("the requests are %q", requests)
	}
	equal(t, "ESS-13 version of the object", s.Draft.Base().GetResourceVersion(), o.object().GetResourceVersion())
	equal(t, "object of the API server", s.Draft.Stored().Content, o.content)
	next := o.begin().Cause
	equal(t, "B-13 StalePin", next.StalePin, false)
	equal(t, "B-13 handled state", next.New, m{"spec": m{"size": int64(2), "own": "altered"}})
}

// If the request of a correction fails, the next reconcile repeats it. Otherwise, it would detect the altered field as an update.
func TestWrite_RepeatsFailedCorrection(t *testing.T) {
	o := newOperator(t, defaults(), object(sized(1)))
	o.transforms = func(content m) { content["spec"].(m)["own"] = "altered" }
	fails := true
	o.before = func(r request) error {
		if r.String() == "+last-handled-configuration" && fails {
			return errUnavailable
		}
		return nil
	}
	s := o.begin()
	o.call(s, "a", succeeds, own("x"))
	o.finish(s, "b")
	if _, err := o.tryWrite(s); err == nil {
		t.Fatal("the write has no error, want the error of the correction")
	}
	if o.pending == nil {
		t.Fatal("the session is not kept for the next reconcile")
	}
	fails = false
	if _, err := o.tryWrite(o.pending); err != nil {
		t.Fatal(err)
	}
	equal(t, "requests", o.sent(), []string{"spec.own +last-handled-configuration", "+last-handled-configuration", "+last-handled-configuration"})
	if o.pending != nil {
		t.Error("the session is still pending")
	}
	equal(t, "ESS-13 next reason", o.begin().Cause.Reason, cause.Noop)
}
