package cause_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// Old, New, Diff and the reason follow from the object and its last-handled configuration.
func TestDetect_ComparesWithBaseline(t *testing.T) {
	for _, test := range []struct {
		name string
		in   cause.Input // Content is the essence of the object
		want cause.Cause // New and Live are the essence of the object
	}{
		{
			name: "CAUSE-04 DIFF-05 no baseline",
			in:   cause.Input{Content: sized(1)},
			want: cause.Cause{Reason: cause.Create, Diff: added(sized(1))},
		},
		{
			name: "CAUSE-04 no baseline, in the initial list",
			in:   cause.Input{Content: sized(1), Facts: cause.Facts{Initial: true}},
			want: cause.Cause{Reason: cause.Create, Facts: cause.Facts{Initial: true}, Diff: added(sized(1))},
		},
		{
			name: "CAUSE-04 Detect overwrites HasBaseline and Changed from the input: no baseline",
			in:   cause.Input{Content: sized(1), Facts: cause.Facts{HasBaseline: true, Changed: true}},
			want: cause.Cause{Reason: cause.Create, Diff: added(sized(1))},
		},
		{
			name: "CAUSE-06 the baseline equals the essence",
			in:   cause.Input{Content: sized(1), Baseline: text(sized(1))},
			want: cause.Cause{Reason: cause.Noop, Facts: cause.Facts{HasBaseline: true}, Old: sized(1), Unchanged: true},
		},
		{
			name: "CAUSE-06 Detect overwrites Changed from the input: the baseline equals the essence",
			in:   cause.Input{Content: sized(1), Baseline: text(sized(1)), Facts: cause.Facts{Changed: true}},
			want: cause.Cause{Reason: cause.Noop, Facts: cause.Facts{HasBaseline: true}, Old: sized(1), Unchanged: true},
		},
		{
			name: "CAUSE-05 the baseline equals the essence, in the initial list",
			in:   cause.Input{Content: sized(1), Baseline: text(sized(1)), Facts: cause.Facts{Initial: true}},
			want: cause.Cause{Reason: cause.Resume, Facts: cause.Facts{HasBaseline: true, Initial: true}, Old: sized(1), Unchanged: true},
		},
		{
			name: "ESS-23 ESS-24 the baseline equals the essence, but its text differs",
			in:   cause.Input{Content: sized(1), Baseline: []byte(`{ "spec": {"size": 1.0, "absent": null} }`)},
			want: cause.Cause{
				Reason: cause.Noop, Facts: cause.Facts{HasBaseline: true}, Old: m{"spec": m{"size": float64(1), "absent": nil}},
			},
		},
		{
			name: "CAUSE-07 the baseline differs",
			in:   cause.Input{Content: sized(2), Baseline: text(sized(1))},
			want: cause.Cause{Reason: cause.Update, Facts: cause.Facts{HasBaseline: true, Changed: true}, Old: sized(1), Diff: changed(1, 2)},
		},
		{
			name: "CAUSE-23 the baseline differs, in the initial list",
			in:   cause.Input{Content: sized(2), Baseline: text(sized(1)), Facts: cause.Facts{Initial: true}},
			want: cause.Cause{
				Reason: cause.Update, Facts: cause.Facts{HasBaseline: true, Changed: true, Initial: true}, Old: sized(1), Diff: changed(1, 2),
			},
		},
		{
			name: "B-31 only the digest of the essence is stored",
			in:   cause.Input{Content: sized(1), Baseline: digestText(sized(1))},
			want: cause.Cause{Reason: cause.Noop, Facts: cause.Facts{HasBaseline: true}, Old: sized(1)},
		},
		{
			name: "B-31 only the digest of the essence is stored, in the initial list",
			in:   cause.Input{Content: sized(1), Baseline: digestText(sized(1)), Facts: cause.Facts{Initial: true}},
			want: cause.Cause{Reason: cause.Resume, Facts: cause.Facts{HasBaseline: true, Initial: true}, Old: sized(1)},
		},
		{
			name: "B-31 only the digest of another essence is stored: the old essence and the diff are unknown",
			in:   cause.Input{Content: sized(2), Baseline: digestText(sized(1))},
			want: cause.Cause{Reason: cause.Update, Facts: cause.Facts{HasBaseline: true, Changed: true}},
		},
		{
			name: "B-31 a document with the digest key and other fields is not treated as a digest",
			in:   cause.Input{Content: sized(1), Baseline: text(m{essence.DigestDocumentKey: essence.DigestOf(sized(1)), "spec": m{"size": int64(1)}})},
			want: cause.Cause{
				Reason: cause.Update, Facts: cause.Facts{HasBaseline: true, Changed: true},
				Old:  m{essence.DigestDocumentKey: essence.DigestOf(sized(1)), "spec": m{"size": int64(1)}},
				Diff: diff.Diff{{Op: diff.Remove, Path: diff.Path{essence.DigestDocumentKey}, Old: essence.DigestOf(sized(1))}},
			},
		},
		{
			name: "B-30 an unreadable baseline is treated as absent",
			in:   cause.Input{Content: sized(1), Baseline: []byte(`{`)},
			want: cause.Cause{Reason: cause.Create, Diff: added(sized(1))},
		},
		{
			name: "B-30 ESS-12 a baseline of null is treated as absent",
			in:   cause.Input{Content: sized(1), Baseline: []byte(`null`)},
			want: cause.Cause{Reason: cause.Create, Diff: added(sized(1))},
		},
		{
			name: "CAUSE-03 being deleted, unchanged",
			in:   cause.Input{Content: sized(1), Baseline: text(sized(1)), Facts: cause.Facts{Deleting: true, HasFinalizer: true}},
			want: cause.Cause{
				Reason: cause.Delete, Facts: cause.Facts{HasBaseline: true, Deleting: true, HasFinalizer: true}, Old: sized(1), Unchanged: true,
			},
		},
		{
			name: "CAUSE-18 being deleted, changed",
			in:   cause.Input{Content: sized(2), Baseline: text(sized(1)), Facts: cause.Facts{Deleting: true, HasFinalizer: true}},
			want: cause.Cause{
				Reason: cause.Delete, Facts: cause.Facts{HasBaseline: true, Changed: true, Deleting: true, HasFinalizer: true},
				Old: sized(1), Diff: changed(1, 2),
			},
		},
		{
			name: "CAUSE-19 being deleted, never handled",
			in:   cause.Input{Content: sized(1), Facts: cause.Facts{Deleting: true, HasFinalizer: true}},
			want: cause.Cause{Reason: cause.Delete, Facts: cause.Facts{Deleting: true, HasFinalizer: true}, Diff: added(sized(1))},
		},
		{
			name: "CAUSE-02 being deleted without our finalizer: no diff",
			in:   cause.Input{Content: sized(2), Baseline: text(sized(1)), Facts: cause.Facts{Deleting: true}},
			want: cause.Cause{Reason: cause.Free, Facts: cause.Facts{HasBaseline: true, Changed: true, Deleting: true}, Old: sized(1)},
		},
		{
			name: "CAUSE-01 the object is gone: no diff",
			in:   cause.Input{Content: sized(1), Facts: cause.Facts{Gone: true}},
			want: cause.Cause{Reason: cause.Gone, Facts: cause.Facts{Gone: true}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			live := test.in.Content
			test.in.Content = object(live)
			test.want.New, test.want.Live = live, live
			got := detect(test.in)
			equal(t, "cause", got, test.want)
			equal(t, "content after Detect", test.in.Content, object(live))
			if got.WasEdited() {
				t.Error("WasEdited = true, want false")
			}
			if want := test.want.Old != nil || !test.want.HasBaseline; got.IsOldKnown() != want {
				t.Errorf("IsOldKnown = %t, want %t", got.IsOldKnown(), want)
			}
		})
	}
}

func TestDetect_ReportsUnreadableState(t *testing.T) {
	for _, test := range []struct {
		name    string
		in      cause.Input
		warning string // expected warning; empty for no warning
	}{
		{"B-30 an unreadable baseline", cause.Input{Baseline: []byte(`{`)}, "The last-handled configuration is unreadable"},
		{"B-30 an unreadable pin", cause.Input{Pin: []byte(`{`)}, "The pinned configuration is unreadable"},
		{"B-30 a readable baseline and pin", cause.Input{Baseline: text(sized(1)), Pin: pinText(cause.Pin{}, nil)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			d := untyped()
			d.Name = t.Name()
			d.Retype = func(m) (m, error) { return m{}, nil } // Retype never fails here, so each warning comes from decoding
			test.in.Content, test.in.Progress, test.in.Log = object(sized(2)), records{}, logTo(&lines)
			hasBaseline := test.in.Baseline != nil && test.warning == ""
			if got := d.Detect(test.in); got.HasBaseline != hasBaseline {
				t.Errorf("HasBaseline = %t, want %t", got.HasBaseline, hasBaseline)
			}
			want := 0
			if test.warning != "" {
				want = 1
			}
			if len(lines) != want || !strings.Contains(strings.Join(lines, "\n"), test.warning) {
				t.Errorf("got %d log lines, want %d with %q:\n%s", len(lines), want, test.warning, strings.Join(lines, "\n"))
			}
			if got := unreadable(t, d.Name); got != float64(want) {
				t.Errorf("count of unreadable values = %v, want %d", got, want)
			}
		})
	}
}

// Detect converts the baseline to the Go type of the kind before it compares it with the essence.
func TestDetect_RetypesBaseline(t *testing.T) {
	// The type has a new field with a default, and lacks the field "old".
	retype := func(stored m) (m, error) {
		spec, ok := stored["spec"].(m)
		if !ok {
			return nil, errors.New("spec is no object")
		}
		return m{"spec": m{"size": spec["size"], "mode": "auto"}}, nil
	}
	live := m{"spec": m{"size": int64(1), "mode": "auto"}}
	for _, test := range []struct {
		name     string
		baseline m
		untyped  bool // whether essences may have fields that the type lacks
		own      bool // whether this process has stored the baseline
		want     cause.Reason
		old      m
		hasText  bool
	}{
		{name: "B-32 baseline stored by an operator with an older version of the Go type", baseline: sized(1), want: cause.Noop, old: live},
		{name: "B-32 baseline with a field that the Go type lacks", baseline: m{"spec": m{"size": int64(1), "old": "x"}}, want: cause.Noop, old: live},
		{
			name: "B-32 baseline with another size", baseline: sized(2), want: cause.Update,
			old: m{"spec": m{"size": int64(2), "mode": "auto"}},
		},
		{name: "B-32 baseline that cannot be converted to the Go type", baseline: m{"spec": "x"}, want: cause.Update, old: m{"spec": "x"}},
		{name: "B-32 baseline stored by this process", baseline: sized(1), own: true, want: cause.Update, old: sized(1), hasText: true},
		{name: "B-32 baseline stored by this process, essences may have fields that the type lacks", baseline: sized(1), own: true, untyped: true, want: cause.Noop, old: live},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			in := cause.Input{Content: object(live), Baseline: text(test.baseline), Progress: records{}, Log: logTo(&lines)}
			if test.own {
				in.History = in.History.With(in.Baseline, nil)
			}
			d := &cause.Detector{Retype: retype, HasUntypedFields: test.untyped}
			got := d.Detect(in)
			equal(t, "reason", got.Reason, test.want)
			equal(t, "old", got.Old, test.old)
			var stored []byte
			if test.hasText {
				stored = in.Baseline
			}
			equal(t, "text of old", got.StoredTextOf(got.Old), stored)
			if got.StoredTextOf(got.New) != nil {
				t.Error("StoredTextOf returns a text for an essence that was not decoded")
			}
			if _, err := retype(test.baseline); (err != nil) != (len(lines) == 1 && strings.Contains(lines[0], `"level"=1`)) {
				t.Errorf("error of Retype = %v, log = %q; want one line at level 1 if and only if Retype fails", err, lines)
			}
		})
	}
}

// Detect does not convert a digest to the Go type, and does not keep it as the text of an essence.
func TestDetect_DoesNotRetypeDigest(t *testing.T) {
	baseline := digestText(sized(1))
	for name, history := range map[string]*cause.BaselineHistory{
		"B-31 digest stored by this process": new(cause.Input).History.With(baseline, nil), "B-31 digest stored by another process": nil,
	} {
		t.Run(name, func(t *testing.T) {
			d := untyped()
			d.Retype = func(m) (m, error) { return m{}, nil } // the Go type lacks the field of the digest
			var lines []string
			got := d.Detect(cause.Input{Content: object(sized(2)), Baseline: baseline, Progress: records{}, History: history, Log: logTo(&lines)})
			equal(t, "cause", got, cause.Cause{Reason: cause.Update, Facts: hasChange, New: sized(2), Live: sized(2)})
			equal(t, "log", lines, []string(nil))
			if got.StoredTextOf(got.New) != nil || got.StoredTextOf(got.Old) != nil {
				t.Error("StoredTextOf returns a text although only a digest is stored")
			}
		})
	}
}

// Detect compares the configured status fields and conditions in the baseline and in the object.
func TestDetect_BuildsEssence(t *testing.T) {
	d := untyped()
	d.Essence = essence.Builder{Fields: [][]string{{"status", "phase"}}, Conditions: []string{"Ready"}}
	baseline := m{"spec": m{}, "status": m{"phase": "Down"}, essence.ConditionsKey: m{"Ready": "False"}}
	content := m{
		"spec":   m{},
		"status": m{"phase": "Up", "conditions": []any{m{"type": "Ready", "status": "True", "message": "changes"}, m{"type": "Other", "status": "True"}}},
	}
	got := d.Detect(cause.Input{Content: content, Baseline: text(baseline), Progress: records{}})
	equal(t, "ESS-04 diff", got.Diff, diff.Diff{
		{Op: diff.Change, Path: diff.Path{essence.ConditionsKey, "Ready"}, Old: "False", New: "True"},
		{Op: diff.Change, Path: diff.Path{"status", "phase"}, Old: "Down", New: "Up"},
	})
}

// The engine compares an essence first and stores it later, so EncodeEssence keeps the text.
func TestEncodeEssence_KeepsLastResult(t *testing.T) {
	c := detect(cause.Input{Content: object(sized(1))})
	first, err := c.EncodeEssence(c.New)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "text", string(first), string(text(sized(1))))
	again, err := c.EncodeEssence(c.New)
	if err != nil || &first[0] != &again[0] {
		t.Errorf("EncodeEssence encodes the same essence again or fails: error = %v", err)
	}
	other, err := c.EncodeEssence(sized(2))
	if err != nil || string(other) != string(text(sized(2))) {
		t.Errorf("EncodeEssence of another essence = %s, %v, want %s", other, err, text(sized(2)))
	}
	back, err := c.EncodeEssence(c.New)
	if err != nil || string(back) != string(first) {
		t.Errorf("EncodeEssence = %s, %v for the first essence after another one", back, err)
	}
}

func TestEncodeEssence_KeepsEarlierResultAfterError(t *testing.T) {
	c := detect(cause.Input{Content: object(sized(1))})
	first, err := c.EncodeEssence(c.New)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.EncodeEssence(m{"spec": func() {}}); err == nil || got != nil {
		t.Errorf("EncodeEssence = %s, %v for an essence without a JSON form; want an error", got, err)
	}
	if again, err := c.EncodeEssence(c.New); err != nil || &first[0] != &again[0] {
		t.Errorf("EncodeEssence = %s, %v after the error; want the earlier result", again, err)
	}
}

// EncodeEssence returns the text that Detect has already encoded.
func TestEncodeEssence_ReturnsTextOfComparison(t *testing.T) {
	c := detect(cause.Input{Content: object(sized(2)), Baseline: text(sized(1))})
	c.New["later"] = "x" // a change shows whether the essence is encoded again
	got, err := c.EncodeEssence(c.New)
	if err != nil || string(got) != string(text(sized(2))) {
		t.Errorf("EncodeEssence = %s, %v; want the text that Detect has encoded", got, err)
	}
}

func TestCauseAfterWrite(t *testing.T) {
	for _, test := range []struct {
		name         string
		before, want cause.Cause
	}{
		{
			name:   "B-13 changes made by handlers are added to the old and the new essence",
			before: cause.Cause{Reason: cause.Update, Old: tagged(1, "a"), New: tagged(2, "a"), Live: tagged(2, "a")},
			want:   cause.Cause{Reason: cause.Update, Old: tagged(1, "a", "own"), New: tagged(2, "a", "own"), Live: tagged(2, "a")},
		},
		{
			name:   "B-13 an old essence that is unknown remains unknown",
			before: cause.Cause{Reason: cause.Create, New: tagged(2, "a"), Live: tagged(2, "a")},
			want:   cause.Cause{Reason: cause.Create, New: tagged(2, "a", "own"), Live: tagged(2, "a")},
		},
		{
			name:   "B-02 a reversal is stored",
			before: cause.Cause{Reversed: true, OldDigest: "digest", OutdatedBaseline: true},
			want:   cause.Cause{WasReversed: true, New: tagged(2, "a", "own")},
		},
		{
			name:   "B-02 an earlier reversal remains known",
			before: cause.Cause{WasReversed: true},
			want:   cause.Cause{WasReversed: true, New: tagged(2, "a", "own")},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := untyped().CauseAfterWrite(test.before, object(tagged(2, "a")), tagged(2, "a", "own"), m{"spec": m{"tags": []any{"a", "own"}}})
			equal(t, "cause", got, test.want)
		})
	}
}
