package cause_test

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// owned returns an essence with a size and a field that a daemon has set.
func owned(size int) m { return m{"spec": m{"size": int64(size), "own": "x"}} }

// setOwn is the patch of the daemon.
var setOwn = patch.MergePatch{"spec": m{"own": "x"}}

// Edits by daemons and timers are no updates.
func TestDetect_MergesEdits(t *testing.T) {
	noop := cause.Cause{Reason: cause.Noop, Facts: hasBaseline, OutdatedBaseline: true}
	update := cause.Cause{Reason: cause.Update, Facts: hasChange, OutdatedBaseline: true}
	for _, test := range []struct {
		name     string
		live     m
		baseline []byte
		edits    []cause.BackgroundEdit
		want     cause.Cause
		old      m
	}{
		{name: "B-13 nothing else has changed", live: owned(1), baseline: text(sized(1)), edits: []cause.BackgroundEdit{edit(sized(1), setOwn)}, want: noop, old: owned(1)},
		{
			name: "B-13 a user has edited the object, too", live: owned(2), baseline: text(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(2), setOwn)}, want: update, old: owned(1),
		},
		{
			name: "B-13 two edits", live: m{"spec": m{"size": int64(1), "own": "y"}}, baseline: text(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(1), setOwn), edit(owned(1), patch.MergePatch{"spec": m{"own": "y"}})},
			want:  noop, old: m{"spec": m{"size": int64(1), "own": "y"}},
		},
		{
			name: "B-13 a list that a user has edited, too", live: tagged(1, "a", "user", "own"), baseline: text(tagged(1, "a")),
			edits: []cause.BackgroundEdit{edit(tagged(1, "a", "user"), patch.MergePatch{"spec": m{"tags": []any{"a", "user", "own"}}})},
			want:  update, old: tagged(1, "a", "own"),
		},
		{
			name: "B-13 the baseline contains the edit", live: owned(1), baseline: text(owned(1)), edits: []cause.BackgroundEdit{edit(sized(1), setOwn)},
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Unchanged: true}, old: owned(1),
		},
		{
			name: "B-13 no baseline", live: owned(1), edits: []cause.BackgroundEdit{edit(sized(1), setOwn)},
			want: cause.Cause{Reason: cause.Create, OutdatedBaseline: true, Diff: added(owned(1))},
		},
		{
			name: "B-13 B-31 the digest of the edited essence", live: owned(1), baseline: digestText(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(1), setOwn)}, want: noop, old: owned(1),
		},
		{
			name: "B-13 B-31 a digest and two edits", live: m{"spec": m{"size": int64(1), "own": "y"}}, baseline: digestText(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(1), setOwn), edit(owned(1), patch.MergePatch{"spec": m{"own": "y"}})},
			want:  noop, old: m{"spec": m{"size": int64(1), "own": "y"}},
		},
		{
			name: "B-13 B-31 the digest of another essence", live: owned(2), baseline: digestText(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(2), setOwn)}, want: update,
		},
		{
			name: "B-13 B-31 the digest of the essence of the second edit", live: owned(1), baseline: digestText(sized(1)),
			edits: []cause.BackgroundEdit{edit(sized(2), setOwn), edit(sized(1), setOwn)}, want: noop, old: owned(1),
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := detect(cause.Input{Content: object(test.live), Baseline: test.baseline, Edits: test.edits})
			test.want.Old, test.want.New, test.want.Live = test.old, test.live, test.live
			test.want.Diff = got.Diff
			equal(t, "cause", got, test.want)
			for _, item := range got.Diff {
				if strings.Join(item.Path, ".") == "spec.own" {
					t.Errorf("Diff = %v, want a diff without spec.own", got.Diff)
				}
			}
		})
	}
}

// A pin lacks the edits that daemons have made after the cycle began.
func TestDetect_MergesEditsIntoPin(t *testing.T) {
	edits := []cause.BackgroundEdit{edit(sized(1), setOwn)}
	for _, test := range []struct {
		name     string
		live     m
		baseline []byte
		pin      cause.Pin
		records  records
		want     cause.Cause
		pinned   bool
	}{
		{
			name: "B-13 the object was not edited otherwise", live: owned(1), pin: cause.Pin{Snapshot: snapshot(sized(1))}, records: waiting(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: owned(1), Diff: added(owned(1))},
		},
		{
			name: "B-13 a user has edited the object, too", live: owned(2), pin: cause.Pin{Snapshot: snapshot(sized(1))}, records: waiting(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: owned(1), Diff: added(owned(1))}, pinned: true,
		},
		{
			name: "B-13 the state that a handler has seen", live: owned(2),
			pin: cause.Pin{Snapshot: snapshot(sized(1)), Seen: new(snapshot(sized(3)))}, records: waiting(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: owned(1), Diff: added(owned(1)), Seen: new(snapshot(owned(3)))}, pinned: true,
		},
		{
			name: "B-13 B-02 the change of a user is undone", live: owned(1), baseline: text(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: attempted(cause.Update),
			want: cause.Cause{
				Reason: cause.Update, Facts: hasChange, Old: owned(2), New: owned(1), Diff: changed(2, 1), Reversed: true, Reset: cause.RestartUpdate,
			},
		},
		{
			name: "B-13 B-31 a pin with a digest keeps it", live: owned(1), pin: cause.Pin{Snapshot: digestSnapshot(sized(2))}, records: waiting(cause.Create),
			want: cause.Cause{
				Reason: cause.Create, Facts: cause.Facts{Changed: true}, New: owned(1), Diff: added(owned(1)), PinnedDigest: essence.DigestOf(sized(2)),
			},
			pinned: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := detect(cause.Input{
				Content: object(test.live), Baseline: test.baseline, Pin: pinText(test.pin, test.baseline), Progress: test.records, Edits: edits,
			})
			test.want.Live, test.want.OutdatedBaseline = test.live, true
			equal(t, "cause", got, test.want)
			if got.WasEdited() != test.pinned {
				t.Errorf("WasEdited = %t, want %t", got.WasEdited(), test.pinned)
			}
		})
	}
}

// watching is a detector of a kind with a watched field of the status and a watched condition.
func watching() *cause.Detector {
	d := untyped()
	d.Essence = essence.Builder{Fields: [][]string{{"status", "phase"}, {"status", "note"}}, Conditions: []string{"Ready"}}
	d.Watched = [][]string{{"status", "phase"}}
	return d
}

func TestMergeOwn(t *testing.T) {
	ready := func(status string) []any { return []any{m{"type": "Ready", "status": status}} }
	own := untyped()
	own.OwnChanges = true
	for _, test := range []struct {
		name     string
		detector *cause.Detector // default: untyped
		content  m
		into     m
		changed  patch.MergePatch
		want     m
	}{
		{name: "B-13 a field is set", content: sized(1), into: sized(1), changed: setOwn, want: owned(1)},
		{name: "B-13 a field is removed", content: owned(1), into: owned(1), changed: patch.MergePatch{"spec": m{"own": nil}}, want: sized(1)},
		{name: "B-13 a field that another essence has with another value", content: sized(1), into: sized(2), changed: patch.MergePatch{"spec": m{"size": int64(5)}}, want: sized(5)},
		{
			name: "B-13 items of a list are added and removed, other clients have changed it, too", content: tagged(1, "a", "b"), into: tagged(1, "a", "c"),
			changed: patch.MergePatch{"spec": m{"tags": []any{"b", "own"}}}, want: tagged(1, "c", "own"),
		},
		{name: "B-13 no change", content: sized(1), into: sized(2), want: sized(2)},
		{name: "B-13 no essence", content: sized(1), changed: setOwn},
		{name: "B-13 own changes are updates", detector: own, content: sized(1), into: sized(1), changed: setOwn, want: sized(1)},
		{
			name: "B-13 fields outside of the essence", content: sized(1), into: sized(1),
			changed: patch.MergePatch{"status": m{"phase": "Up"}, "metadata": m{"finalizers": []any{"x"}, "labels": m{"a": "b"}}},
			want:    m{"spec": m{"size": int64(1)}, "metadata": m{"labels": m{"a": "b"}}},
		},
		{
			name: "B-13 a watched field is set", detector: watching(), content: m{"spec": m{}}, into: m{"spec": m{}},
			changed: patch.MergePatch{"status": m{"phase": "Up", "note": "own"}}, want: m{"spec": m{}, "status": m{"note": "own"}},
		},
		{
			name: "B-13 a watched field is changed", detector: watching(), content: m{"status": m{"phase": "Down"}}, into: m{"status": m{"phase": "Down"}},
			changed: patch.MergePatch{"status": m{"phase": "Up"}}, want: m{"status": m{"phase": "Down"}},
		},
		{
			name: "B-13 a watched field is removed", detector: watching(), content: m{"status": m{"phase": "Down"}}, into: m{"status": m{"phase": "Down"}},
			changed: patch.MergePatch{"status": m{"phase": nil}}, want: m{"status": m{"phase": "Down"}},
		},
		{
			name: "B-13 B-62 a condition is set", detector: watching(), content: m{"spec": m{}}, into: m{"spec": m{}},
			changed: patch.MergePatch{"status": m{"conditions": ready("True"), "note": "own"}}, want: m{"spec": m{}, "status": m{"note": "own"}},
		},
		{
			name: "B-13 B-62 a condition is changed", detector: watching(), content: m{"status": m{"conditions": ready("False")}},
			into:    m{essence.ConditionsKey: m{"Ready": "False"}},
			changed: patch.MergePatch{"status": m{"conditions": ready("True")}}, want: m{essence.ConditionsKey: m{"Ready": "False"}},
		},
		{
			name: "B-13 B-62 conditions and another field of the status are removed", detector: watching(), content: m{"status": m{"conditions": ready("False"), "note": "x"}},
			into:    m{"status": m{"note": "x"}, essence.ConditionsKey: m{"Ready": "False"}},
			changed: patch.MergePatch{"status": m{"conditions": nil, "note": nil}}, want: m{essence.ConditionsKey: m{"Ready": "False"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.detector
			if d == nil {
				d = untyped()
			}
			before := text(m{"content": test.content, "into": test.into, "changed": m(test.changed)})
			equal(t, "essence", d.MergeOwn(test.content, test.into, test.changed), test.want)
			after := text(m{"content": test.content, "into": test.into, "changed": m(test.changed)})
			equal(t, "arguments after MergeOwn", string(after), string(before))
		})
	}
}

// withConditionsInSpec is a detector of a kind that stores the status of its condition in a field of the spec.
func withConditionsInSpec() *cause.Detector {
	d := untyped()
	d.Essence = essence.Builder{Conditions: []string{"Ready"}, FindConditionStatuses: func(content m) m {
		if spec, ok := content["spec"].(m); ok && spec["ready"] != nil {
			return m{"Ready": spec["ready"]}
		}
		return nil
	}}
	return d
}

// Transitions of conditions are updates wherever a kind stores its conditions.
func TestMergeOwn_IgnoresConditionsElsewhere(t *testing.T) {
	d, ready := withConditionsInSpec(), patch.MergePatch{"spec": m{"ready": "True"}}
	equal(t, "B-62 a condition is set", d.MergeOwn(m{}, m{}, ready), m{"spec": m{"ready": "True"}})
	former := m{"spec": m{"ready": "False"}, essence.ConditionsKey: m{"Ready": "False"}}
	equal(t, "B-62 a condition is changed", d.MergeOwn(m{"spec": m{"ready": "False"}}, former, ready),
		m{"spec": m{"ready": "True"}, essence.ConditionsKey: m{"Ready": "False"}})

	// The difference of a field in the spec counts, that of the condition does not.
	c := cause.Cause{Reason: cause.Create, New: m{"spec": m{"ready": "True"}}}
	got, differs := d.MergeStored(c, m{"spec": m{"ready": "True"}}, ready, logr.Discard())
	equal(t, "B-62 a condition is stored", got, c)
	equal(t, "B-62 a condition is stored: difference", differs, false)
}

// MergeOwn returns the same map for an essence without changes, so that its encoded form can be reused.
func TestMergeOwn_KeepsUnchangedEssence(t *testing.T) {
	c := detect(cause.Input{Content: object(sized(1))})
	first, err := c.EncodeEssence(c.New)
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.EncodeEssence(untyped().MergeOwn(object(sized(1)), c.New, patch.MergePatch{}))
	if err != nil || &first[0] != &again[0] {
		t.Errorf("B-13: EncodeEssence encodes again after an empty patch or fails: error = %v", err)
	}
}

func TestMergePart(t *testing.T) {
	before := cause.Cause{Reason: cause.Update, Old: sized(1), New: sized(2), Live: sized(3)}
	got := untyped().MergePart(before, object(sized(3)), setOwn)
	equal(t, "B-13 cause", got, cause.Cause{Reason: cause.Update, Old: owned(1), New: owned(2), Live: owned(3), OutdatedBaseline: true})
	equal(t, "B-13 cause before", before, cause.Cause{Reason: cause.Update, Old: sized(1), New: sized(2), Live: sized(3)})
}

// Changes of handlers may be stored with other values than handlers have set.
func TestMergeStored(t *testing.T) {
	own := untyped()
	own.OwnChanges = true
	update := cause.Cause{Reason: cause.Update, Old: sized(1), New: sized(2), Live: sized(2)}
	deleted := update
	deleted.Reason = cause.Delete
	created := cause.Cause{Reason: cause.Create, New: sized(2), Live: sized(2)}
	status := cause.Cause{Reason: cause.Update, Old: m{"spec": m{}}, New: m{"spec": m{}}, Live: m{"spec": m{}}}
	for _, test := range []struct {
		name     string
		detector *cause.Detector // default: untyped
		cause    cause.Cause
		sent     patch.MergePatch
		content  m // as the API server has stored it
		old      m
		new      m // nil: the cause is unchanged
		warning  string
	}{
		{
			name: "B-13 a webhook has changed a value", cause: update, sent: patch.MergePatch{"spec": m{"own": "x"}},
			content: object(m{"spec": m{"size": int64(2), "own": "y"}}), old: m{"spec": m{"size": int64(1), "own": "y"}},
			new: m{"spec": m{"size": int64(2), "own": "y"}}, warning: `change them?" "fields"=["spec.own"]`, // without values
		},
		{
			name: "B-13 a default has restored a removed field", cause: update, sent: patch.MergePatch{"spec": m{"own": nil}},
			content: object(m{"spec": m{"size": int64(2), "own": "x"}}), old: m{"spec": m{"size": int64(1), "own": "x"}},
			new: m{"spec": m{"size": int64(2), "own": "x"}},
		},
		{
			name: "B-13 the schema does not allow null", cause: update, sent: patch.MergePatch{"spec": m{"own": patch.Null}},
			content: object(sized(2)), old: sized(1), new: sized(2),
		},
		{
			name: "B-13 the schema does not have a field", cause: update, sent: setOwn, content: object(sized(2)), old: sized(1), new: sized(2),
		},
		{
			name: "B-13 one value is changed and another one is dropped", cause: update, sent: patch.MergePatch{"spec": m{"own": "x", "unknown": "x"}},
			content: object(m{"spec": m{"size": int64(2), "own": "y"}}), old: m{"spec": m{"size": int64(1), "own": "y"}},
			new: m{"spec": m{"size": int64(2), "own": "y"}}, warning: "spec.own",
		},
		{
			name: "B-13 a creation has no old essence", cause: created, sent: setOwn, content: object(m{"spec": m{"size": int64(2), "own": "y"}}),
			new: m{"spec": m{"size": int64(2), "own": "y"}}, warning: "other values",
		},
		{name: "B-13 the values are stored", cause: update, sent: setOwn, content: object(owned(2))},
		{name: "B-13 nothing was sent", cause: update, content: object(sized(2))},
		{name: "B-13 own changes are updates", detector: own, cause: update, sent: setOwn, content: object(sized(2))},
		{name: "B-13 the object is being deleted", cause: deleted, sent: setOwn, content: object(sized(2))},
		{name: "B-13 a field outside of the essence", cause: update, sent: patch.MergePatch{"status": m{"phase": "Other"}}, content: object(sized(2))},
		{
			name: "B-13 a watched field", detector: watching(), cause: status, sent: patch.MergePatch{"status": m{"phase": "Up"}},
			content: m{"spec": m{}, "status": m{"phase": "Down"}},
		},
		{
			name: "B-13 B-62 a condition", detector: watching(), cause: status,
			sent:    patch.MergePatch{"status": m{"conditions": []any{m{"type": "Ready", "status": "True"}}}},
			content: m{"spec": m{}, "status": m{"conditions": []any{m{"type": "Ready", "status": "False"}}}},
		},
		{
			name: "B-13 a field of the status that is not watched", detector: watching(), cause: status,
			sent:    patch.MergePatch{"status": m{"phase": "Up", "note": "x"}},
			content: m{"spec": m{}, "status": m{"phase": "Down", "note": "y"}},
			old:     m{"spec": m{}, "status": m{"note": "y"}}, new: m{"spec": m{}, "status": m{"note": "y"}}, warning: "status.note",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.detector
			if d == nil {
				d = untyped()
			}
			var lines []string
			want := test.cause
			if test.new != nil {
				want.Old, want.New = test.old, test.new
			}
			got, differs := d.MergeStored(test.cause, test.content, test.sent, logTo(&lines))
			equal(t, "cause", got, want)
			if differs != (test.new != nil) {
				t.Errorf("MergeStored returns differs = %t, want %t", differs, test.new != nil)
			}
			if logged := strings.Join(lines, "\n"); (test.warning == "") != (len(lines) == 0) || !strings.Contains(logged, test.warning) {
				t.Errorf("want a log line with %q, or none if it is empty; got:\n%s", test.warning, logged)
			}
		})
	}
}

func TestAffectsEssence(t *testing.T) {
	for _, test := range []struct {
		name    string
		changed patch.MergePatch
		want    bool
	}{
		{"ESS-01 the spec", setOwn, true},
		{"ESS-01 the same value", patch.MergePatch{"spec": m{"size": int64(1)}}, false},
		{"ESS-01 the status", patch.MergePatch{"status": m{"phase": "Down"}}, false},
		{"ESS-04 B-62 a condition that handlers watch", patch.MergePatch{"status": m{"conditions": []any{m{"type": "Ready", "status": "True"}}}}, true},
		{"ESS-01 no change", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := untyped()
			d.Essence.Conditions = []string{"Ready"}
			if got := d.AffectsEssence(object(sized(1)), test.changed); got != test.want {
				t.Errorf("AffectsEssence = %t, want %t", got, test.want)
			}
		})
	}
}
