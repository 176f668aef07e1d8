package cause_test

import (
	"errors"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

var (
	hasBaseline = cause.Facts{HasBaseline: true}
	hasChange   = cause.Facts{HasBaseline: true, Changed: true}
)

// A cycle continues with the essence that the object had when the cycle began.
func TestDetect_ContinuesPinnedCycle(t *testing.T) {
	for _, test := range []struct {
		name     string
		live     m
		baseline []byte
		pin      cause.Pin
		records  records
		facts    cause.Facts
		want     cause.Cause // Live is the essence of the object
		pinned   bool
	}{
		{
			name: "B-01 CAUSE-14 edited while being created", live: sized(2),
			pin: cause.Pin{Snapshot: snapshot(sized(1))}, records: waiting(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: sized(1), Diff: added(sized(1))}, pinned: true,
		},
		{
			name: "B-01 CAUSE-14 all fields are removed while being created", live: m{},
			pin: cause.Pin{Snapshot: snapshot(sized(1))}, records: attempted(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: sized(1), Diff: added(sized(1))}, pinned: true,
		},
		{
			name: "B-01 CAUSE-15 edited while being updated", live: sized(3), baseline: text(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: attempted(cause.Update),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(2), Diff: changed(1, 2)}, pinned: true,
		},
		{
			name: "B-01 not edited while being created", live: sized(1),
			pin: cause.Pin{Snapshot: snapshot(sized(1))}, records: waiting(cause.Create),
			want: cause.Cause{Reason: cause.Create, New: sized(1), Diff: added(sized(1))},
		},
		{
			name: "B-01 not edited while being updated", live: sized(2), baseline: text(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: waiting(cause.Update),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(2), Diff: changed(1, 2)},
		},
		{
			name: "B-01 the pin was stored before the records", live: sized(3), baseline: text(sized(1)),
			pin:  cause.Pin{Snapshot: snapshot(sized(2)), Ahead: true},
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(2), Diff: changed(1, 2)}, pinned: true,
		},
		{
			name: "B-01 a handler has seen a later state", live: sized(4), baseline: text(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2)), Seen: new(snapshot(sized(3)))}, records: waiting(cause.Update),
			want: cause.Cause{
				Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(2), Diff: changed(1, 2), Seen: new(snapshot(sized(3))),
			},
			pinned: true,
		},
		{
			name: "B-02 a reversed cycle", live: sized(3), baseline: text(sized(2)),
			pin: cause.Pin{Snapshot: snapshot(sized(1)), Turned: true}, records: waiting(cause.Update),
			want: cause.Cause{
				Reason: cause.Update, Facts: hasChange, Old: sized(2), New: sized(1), Diff: changed(2, 1), WasReversed: true,
			},
			pinned: true,
		},
		{
			name: "B-31 only the digest of the baseline is stored", live: sized(3), baseline: digestText(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: waiting(cause.Update),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, New: sized(2)}, pinned: true,
		},
		{
			name: "B-31 only digests are stored, edited while being updated", live: sized(3), baseline: digestText(sized(1)),
			pin: cause.Pin{Snapshot: digestSnapshot(sized(2))}, records: waiting(cause.Update),
			want: cause.Cause{
				Reason: cause.Update, Facts: hasChange, New: sized(3), PinnedDigest: essence.DigestOf(sized(2)),
			},
			pinned: true,
		},
		{
			name: "B-31 only the digest of the pin is stored, edited while being created", live: sized(2),
			pin: cause.Pin{Snapshot: digestSnapshot(sized(1))}, records: waiting(cause.Create),
			want: cause.Cause{
				Reason: cause.Create, Facts: cause.Facts{Changed: true}, New: sized(2), PinnedDigest: essence.DigestOf(sized(1)), Diff: added(sized(2)),
			},
			pinned: true,
		},
		{
			name: "B-31 only the digest of the pin is stored, not edited", live: sized(2), baseline: text(sized(1)),
			pin: cause.Pin{Snapshot: digestSnapshot(sized(2))}, records: waiting(cause.Update),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(2), Diff: changed(1, 2)},
		},
		{
			name: "B-30 the essence of the pin is unreadable: its digest remains", live: sized(3), baseline: text(sized(1)),
			pin:     cause.Pin{Snapshot: cause.Snapshot{Digest: essence.DigestOf(sized(2)), Essence: []byte(`"x"`)}},
			records: waiting(cause.Update),
			want: cause.Cause{
				Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(3), Diff: changed(1, 3), PinnedDigest: essence.DigestOf(sized(2)),
			},
			pinned: true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Live = test.live
			got := detect(cause.Input{
				Facts: test.facts, Content: object(test.live), Baseline: test.baseline, Pin: pinText(test.pin, test.baseline), Progress: test.records,
			})
			equal(t, "cause", got, test.want)
			if got.WasEdited() != test.pinned {
				t.Errorf("WasEdited = %t, want %t", got.WasEdited(), test.pinned)
			}
		})
	}
}

// Detect ignores a pin that does not belong to a running cycle.
func TestDetect_IgnoresStalePin(t *testing.T) {
	pin := cause.Pin{Snapshot: snapshot(sized(2))}
	updated := cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(3), Live: sized(3), Diff: changed(1, 3), StalePin: true}
	deleted := updated
	deleted.Reason, deleted.Deleting, deleted.HasFinalizer = cause.Delete, true, true
	for _, test := range []struct {
		name    string
		facts   cause.Facts
		pin     []byte
		records records
		want    cause.Cause
	}{
		{"B-01 pin for another baseline", cause.Facts{}, pinText(pin, text(sized(7))), attempted(cause.Update), updated},
		{"B-01 pin for an object without a baseline", cause.Facts{}, pinText(pin, nil), attempted(cause.Update), updated},
		{"B-01 object without records", cause.Facts{}, pinText(pin, text(sized(1))), records{}, updated},
		{"B-01 object with records of another cause", cause.Facts{}, pinText(pin, text(sized(1))), attempted(cause.Create), updated},
		{"B-01 CAUSE-18 object that is being deleted", cause.Facts{Deleting: true, HasFinalizer: true}, pinText(pin, text(sized(1))), attempted(cause.Update), deleted},
		{
			"B-01 object that is being deleted, pin stored before the records", cause.Facts{Deleting: true, HasFinalizer: true},
			pinText(cause.Pin{Snapshot: snapshot(sized(2)), Ahead: true}, text(sized(1))), records{}, deleted,
		},
		{"B-30 unreadable pin", cause.Facts{}, []byte(`{`), attempted(cause.Update), updated},
		{"B-30 pin of null", cause.Facts{}, []byte(`null`), attempted(cause.Update), updated},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := detect(cause.Input{Facts: test.facts, Content: object(sized(3)), Baseline: text(sized(1)), Pin: test.pin, Progress: test.records})
			equal(t, "cause", got, test.want)
		})
	}
}

func TestDetect_IgnoresUnreadablePinOfCreation(t *testing.T) {
	got := detect(cause.Input{Content: object(sized(1)), Pin: []byte(`{"digest": 1}`), Progress: attempted(cause.Create)})
	equal(t, "B-30 cause", got, cause.Cause{Reason: cause.Create, New: sized(1), Live: sized(1), Diff: added(sized(1)), StalePin: true})
}

// Handlers that have seen a change must also see that it was undone.
func TestDetect_ReversesUndoneChange(t *testing.T) {
	noop := cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(1), Unchanged: true, StalePin: true}
	resumed := noop
	resumed.Reason, resumed.Initial = cause.Resume, true
	reversed := cause.Cause{
		Reason: cause.Update, Facts: hasChange, Old: sized(2), Diff: changed(2, 1), Unchanged: true, Reversed: true, Reset: cause.RestartUpdate,
	}
	reversedAgain := reversed
	reversedAgain.WasReversed = true
	fromDigest := reversed
	fromDigest.Old, fromDigest.Diff, fromDigest.OldDigest = nil, nil, essence.DigestOf(sized(2))
	sinceDigest := reversed
	sinceDigest.Unchanged = false
	fromSeen := reversed
	fromSeen.Old, fromSeen.Diff = sized(3), changed(3, 1)
	for _, test := range []struct {
		name     string
		facts    cause.Facts
		baseline []byte // default: the complete essence
		pin      cause.Pin
		records  records
		want     cause.Cause
	}{
		{name: "CAUSE-17 no handler was called", pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: waiting(cause.Update), want: noop},
		{
			name: "CAUSE-17 no handler was called, in the initial list", facts: cause.Facts{Initial: true},
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: waiting(cause.Update), want: resumed,
		},
		{name: "B-02 handlers were called", pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: attempted(cause.Update), want: reversed},
		{
			name: "B-02 a handler may have been called: the pin was stored before the records",
			pin:  cause.Pin{Snapshot: snapshot(sized(2)), Ahead: true}, want: reversed,
		},
		{
			name: "B-02 handlers have seen the state before the reversal",
			pin:  cause.Pin{Snapshot: snapshot(sized(2)), Turned: true}, records: waiting(cause.Update), want: reversedAgain,
		},
		{
			name: "B-02 a handler has seen another state",
			pin:  cause.Pin{Snapshot: snapshot(sized(2)), Seen: new(snapshot(sized(3)))}, records: waiting(cause.Update), want: reversed,
		},
		{
			name: "B-02 a handler has seen another state, and its cycle has finished",
			pin:  cause.Pin{Seen: new(snapshot(sized(3)))}, want: fromSeen,
		},
		{
			name: "B-02 B-31 only the digest of the pin is stored",
			pin:  cause.Pin{Snapshot: digestSnapshot(sized(2))}, records: attempted(cause.Update), want: fromDigest,
		},
		{
			name: "B-02 B-31 only the digest of the baseline is stored", baseline: digestText(sized(1)),
			pin: cause.Pin{Snapshot: snapshot(sized(2))}, records: attempted(cause.Update), want: sinceDigest,
		},
		{
			name: "B-01 the pin equals the essence", pin: cause.Pin{Snapshot: snapshot(sized(1)), Turned: true}, records: attempted(cause.Update),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(1), Unchanged: true, WasReversed: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.baseline == nil {
				test.baseline = text(sized(1))
			}
			test.want.New, test.want.Live = sized(1), sized(1)
			got := detect(cause.Input{
				Facts: test.facts, Content: object(sized(1)), Baseline: test.baseline, Pin: pinText(test.pin, test.baseline), Progress: test.records,
			})
			equal(t, "cause", got, test.want)
			if want := test.want.Old != nil; got.IsOldKnown() != want {
				t.Errorf("IsOldKnown = %t, want %t", got.IsOldKnown(), want)
			}
		})
	}
}

// After a cycle, a handler may have seen a state that was never the handled one. The next cycle begins with the present state.
func TestDetect_BeginsNextCycleAfterSeenState(t *testing.T) {
	for name, pin := range map[string]cause.Pin{
		"B-02 the pin of a finished cycle":                           {Seen: new(snapshot(sized(2)))},
		"B-02 the pin of a cycle without records":                    {Snapshot: snapshot(sized(4)), Seen: new(snapshot(sized(2)))},
		"B-02 the pin of a cycle without records, with this essence": {Snapshot: snapshot(sized(3)), Seen: new(snapshot(sized(2)))},
	} {
		t.Run(name, func(t *testing.T) {
			got := detect(cause.Input{Content: object(sized(3)), Baseline: text(sized(1)), Pin: pinText(pin, text(sized(1)))})
			equal(t, "cause", got, cause.Cause{
				Reason: cause.Update, Facts: hasChange, Old: sized(1), New: sized(3), Live: sized(3), Diff: changed(1, 3), WasReversed: true,
			})
		})
	}
}

// Detect converts the essence in a pin to the Go type, if possible.
func TestDetect_RetypesPin(t *testing.T) {
	d := untyped()
	d.Retype = func(stored m) (m, error) {
		if stored["spec"].(m)["size"] == int64(0) {
			return nil, errors.New("size must be positive")
		}
		return m{"spec": m{"size": stored["spec"].(m)["size"], "mode": "auto"}}, nil
	}
	for _, test := range []struct {
		name         string
		pinned, want m
	}{
		{"B-32 a field with a default is added", sized(1), m{"spec": m{"size": int64(1), "mode": "auto"}}},
		{"B-32 an essence that cannot be converted to the Go type is used unchanged", sized(0), sized(0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := d.Detect(cause.Input{
				Content: object(sized(2)), Pin: pinText(cause.Pin{Snapshot: snapshot(test.pinned), Seen: new(snapshot(sized(5)))}, nil),
				Progress: waiting(cause.Create),
			})
			equal(t, "new", got.New, test.want)
			equal(t, "seen", got.Seen, new(snapshot(sized(5)))) // Detect does not convert the seen state
		})
	}
}

// The stored form of pins remains readable for other versions.
func TestPin_Encode(t *testing.T) {
	baseline := text(sized(1))
	for _, test := range []struct {
		name     string
		pin      cause.Pin
		baseline []byte
		want     string
	}{
		{"B-01 object without a baseline", cause.Pin{Snapshot: cause.Snapshot{Digest: "d", Essence: []byte(`{"a":1}`)}}, nil, `{"digest":"d","essence":{"a":1}}`},
		{
			"B-01 object with a baseline", cause.Pin{Since: "ignored", Snapshot: cause.Snapshot{Digest: "d"}, Turned: true, Ahead: true}, baseline,
			`{"since":"` + essence.Digest(baseline) + `","digest":"d","turned":true,"ahead":true}`,
		},
		{
			"B-02 pin with a state that a handler has seen", cause.Pin{Seen: &cause.Snapshot{Digest: "s", Essence: []byte(`{}`)}}, nil,
			`{"seen":{"digest":"s","essence":{}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.pin.Encode(test.baseline)
			if err != nil || string(got) != test.want {
				t.Errorf("Encode = %s, %v, want %s", got, err, test.want)
			}
		})
	}
	if _, err := (cause.Pin{Snapshot: cause.Snapshot{Essence: []byte(`{`)}}).Encode(nil); err == nil {
		t.Error("Encode returns no error for an essence that is not JSON")
	}
}

func TestPin_WithoutEssences(t *testing.T) {
	full := cause.Pin{Snapshot: snapshot(sized(1)), Seen: new(snapshot(sized(2))), Turned: true, Ahead: true}
	equal(t, "B-31 pin", full.WithoutEssences(), cause.Pin{
		Snapshot: digestSnapshot(sized(1)), Seen: new(digestSnapshot(sized(2))), Turned: true, Ahead: true,
	})
	equal(t, "B-31 original pin", full, cause.Pin{Snapshot: snapshot(sized(1)), Seen: new(snapshot(sized(2))), Turned: true, Ahead: true})
	equal(t, "B-31 pin without a seen state", cause.Pin{Snapshot: snapshot(sized(1))}.WithoutEssences(), cause.Pin{Snapshot: digestSnapshot(sized(1))})
}

// PinOf returns the pin of an unfinished cycle, and FinalPin the pin that remains after it.
func TestPinOf(t *testing.T) {
	seen := new(snapshot(sized(3)))
	for _, test := range []struct {
		name        string
		cause       cause.Cause
		want, final *cause.Pin
	}{
		{"B-01 creation", cause.Cause{Reason: cause.Create}, &cause.Pin{Snapshot: snapshot(sized(2))}, nil},
		{"B-01 update", cause.Cause{Reason: cause.Update}, &cause.Pin{Snapshot: snapshot(sized(2))}, nil},
		{"B-01 deletion", cause.Cause{Reason: cause.Delete, Seen: seen}, nil, nil},
		{"B-01 resumption", cause.Cause{Reason: cause.Resume}, nil, nil},
		{"B-01 no cause", cause.Cause{Reason: cause.Noop}, nil, nil},
		{"B-02 resumption after a handler has seen another state", cause.Cause{Reason: cause.Resume, Seen: seen}, &cause.Pin{Seen: seen}, &cause.Pin{Seen: seen}},
		{
			"B-02 a handler has seen another state", cause.Cause{Reason: cause.Update, Seen: seen},
			&cause.Pin{Snapshot: snapshot(sized(2)), Seen: seen}, &cause.Pin{Seen: seen},
		},
		{
			"B-02 a handler has seen the handled state", cause.Cause{Reason: cause.Update, Seen: new(snapshot(sized(2)))},
			&cause.Pin{Snapshot: snapshot(sized(2)), Seen: new(snapshot(sized(2)))}, nil,
		},
		{"B-02 reversed", cause.Cause{Reason: cause.Update, Reversed: true}, &cause.Pin{Snapshot: snapshot(sized(2)), Turned: true}, nil},
		{"B-02 reversed earlier", cause.Cause{Reason: cause.Update, WasReversed: true}, &cause.Pin{Snapshot: snapshot(sized(2)), Turned: true}, nil},
		{
			"B-31 only the digest of the handled state is known", cause.Cause{Reason: cause.Update, PinnedDigest: "digest"},
			&cause.Pin{Snapshot: cause.Snapshot{Digest: "digest"}}, nil,
		},
		{
			"B-31 only the digest of the handled state is known, and a handler has seen a later one",
			cause.Cause{Reason: cause.Update, PinnedDigest: "digest", Seen: new(snapshot(sized(2)))},
			&cause.Pin{Snapshot: cause.Snapshot{Digest: "digest"}, Seen: new(snapshot(sized(2)))}, &cause.Pin{Seen: new(snapshot(sized(2)))},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.cause.PinOf(sized(2))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "pin", got, test.want)
			equal(t, "final pin", test.cause.FinalPin(sized(2)), test.final)
		})
	}
}

func TestPinOf_ReturnsErrorOfEncoding(t *testing.T) {
	c := cause.Cause{Reason: cause.Update}
	if pin, err := c.PinOf(m{"spec": func() {}}); err == nil || pin != nil {
		t.Errorf("PinOf = %v, %v, want an error", pin, err)
	}
}

func TestPinAhead(t *testing.T) {
	for _, test := range []struct {
		name  string
		cause cause.Cause
		want  cause.Pin
	}{
		{"B-01 creation", cause.Cause{New: sized(1), Live: sized(2)}, cause.Pin{Snapshot: snapshot(sized(1)), Ahead: true}},
		{
			"B-02 reversed", cause.Cause{New: sized(1), Reversed: true, Seen: new(snapshot(sized(2)))},
			cause.Pin{Snapshot: snapshot(sized(1)), Ahead: true, Turned: true, Seen: new(snapshot(sized(2)))},
		},
		{"B-02 reversed earlier", cause.Cause{New: sized(1), WasReversed: true}, cause.Pin{Snapshot: snapshot(sized(1)), Ahead: true, Turned: true}},
		{"B-30 an essence without a JSON form", cause.Cause{New: m{"spec": func() {}}}, cause.Pin{Ahead: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "pin", test.cause.PinAhead(), &test.want)
		})
	}
}

func TestWithSeen(t *testing.T) {
	earlier := new(snapshot(sized(9)))
	for _, test := range []struct {
		name  string
		cause cause.Cause
		want  *cause.Snapshot
	}{
		{"B-02 edited after the cycle began", cause.Cause{Reason: cause.Update, New: sized(1), Live: sized(2)}, new(snapshot(sized(2)))},
		{"B-02 edited again", cause.Cause{Reason: cause.Update, New: sized(1), Live: sized(2), Seen: earlier}, new(snapshot(sized(2)))},
		{
			"B-31 edited, only the digest of the handled state is known",
			cause.Cause{Reason: cause.Update, New: sized(2), Live: sized(2), PinnedDigest: "d"}, new(snapshot(sized(2))),
		},
		{"B-02 not edited", cause.Cause{Reason: cause.Update, New: sized(1), Live: sized(1)}, nil},
		{"B-02 not edited any more", cause.Cause{Reason: cause.Update, New: sized(1), Live: sized(1), Seen: earlier}, earlier},
		{"B-02 being deleted", cause.Cause{Reason: cause.Delete, New: sized(1), Live: sized(2)}, nil},
		{
			"B-30 an essence without a JSON form", cause.Cause{Reason: cause.Update, New: sized(1), Live: m{"spec": func() {}}, Seen: earlier}, earlier,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := test.cause.Seen
			equal(t, "seen", test.cause.WithSeen().Seen, test.want)
			if test.cause.Seen != before {
				t.Error("WithSeen changes its receiver")
			}
		})
	}
}

// lifetime is an object with its stored state, as the engine keeps it.
type lifetime struct {
	t        *testing.T
	live     m
	baseline []byte
	pin      []byte
	records  records
}

// detect checks the reason, the old and the new state.
func (l *lifetime) detect(step string, reason cause.Reason, old, handled m) cause.Cause {
	l.t.Helper()
	c := detect(cause.Input{Content: object(l.live), Baseline: l.baseline, Pin: l.pin, Progress: l.records})
	equal(l.t, step+": reason", c.Reason, reason)
	equal(l.t, step+": old", c.Old, old)
	equal(l.t, step+": new", c.New, handled)
	if old != nil {
		equal(l.t, step+": diff", c.Diff, diff.Of(old, handled))
	}
	return c
}

// call stores the state after a handler has finished and others have not.
func (l *lifetime) call(c cause.Cause) {
	c = c.WithSeen()
	pin, err := c.PinOf(c.New)
	if err != nil {
		l.t.Fatal(err)
	}
	if c.Reversed {
		l.baseline = text(c.Old)
	}
	l.pin, l.records = pinText(*pin, l.baseline), attempted(c.Reason)
}

// finish stores the state after all handlers have finished.
func (l *lifetime) finish(c cause.Cause) {
	c = c.WithSeen()
	l.baseline, l.records, l.pin = text(c.New), records{}, nil
	if pin := c.FinalPin(c.New); pin != nil {
		l.pin = pinText(*pin, l.baseline)
	}
}

// Handlers receive every change and its reversal, whenever the object is edited.
func TestDetect_EditsDuringCycles(t *testing.T) {
	t.Run("B-01 B-02 an edit is undone after a handler has seen it", func(t *testing.T) {
		l := &lifetime{t: t, live: sized(1), baseline: text(sized(0))}
		c := l.detect("change", cause.Update, sized(0), sized(1))
		l.call(c)
		l.live = sized(2)
		c = l.detect("edit", cause.Update, sized(0), sized(1))
		l.finish(c) // the last handler may have seen the edit
		l.live = sized(1)
		c = l.detect("undone", cause.Update, sized(2), sized(1))
		if !c.Reversed {
			t.Error("the cause is not reversed")
		}
		l.call(c)
		c = l.detect("reversal continues", cause.Update, sized(2), sized(1))
		l.finish(c)
		l.detect("afterwards", cause.Noop, sized(1), sized(1))
	})
	t.Run("B-01 an edit is the next update", func(t *testing.T) {
		l := &lifetime{t: t, live: sized(1)}
		c := l.detect("creation", cause.Create, nil, sized(1))
		l.call(c)
		l.live = sized(2)
		c = l.detect("edit", cause.Create, nil, sized(1))
		l.finish(c)
		c = l.detect("update", cause.Update, sized(1), sized(2))
		l.finish(c)
		l.detect("afterwards", cause.Noop, sized(2), sized(2))
	})
	t.Run("B-02 a change is undone and made again", func(t *testing.T) {
		l := &lifetime{t: t, live: sized(1), baseline: text(sized(0))}
		c := l.detect("change", cause.Update, sized(0), sized(1))
		l.call(c)
		l.live = sized(0)
		c = l.detect("undone", cause.Update, sized(1), sized(0))
		l.call(c)
		l.live = sized(1)
		c = l.detect("made again", cause.Update, sized(0), sized(1))
		if !c.Reversed || !c.WasReversed {
			t.Errorf("Reversed = %t, WasReversed = %t, want true and true", c.Reversed, c.WasReversed)
		}
		l.finish(c)
		l.detect("afterwards", cause.Noop, sized(1), sized(1))
	})
}
