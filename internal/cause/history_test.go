package cause_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

// stored returns the history after this process has stored the baselines of sizes in turn.
func stored(sizes ...int) (h *cause.BaselineHistory) {
	var before []byte
	for _, size := range sizes {
		baseline := text(sized(size))
		h, before = h.With(baseline, before), baseline
	}
	return h
}

// Clients that restore an old state of an object also restore the old baseline.
func TestDetect_RecognizesRestoredBaseline(t *testing.T) {
	restored := cause.Cause{
		Reason: cause.Update, Facts: hasChange, Old: sized(2), Diff: changed(2, 1),
		OutdatedBaseline: true, RestoredBaseline: true, Reset: cause.RestartAllCauses,
	}
	restoredAndEdited := restored
	restoredAndEdited.Diff = changed(2, 3)
	for _, test := range []struct {
		name     string
		live     int
		history  *cause.BaselineHistory
		replaced []byte
		want     cause.Cause // the stored baseline is that of size 1
		message  string      // part of the only log line; empty for no log line
	}{
		{
			name: "ESS-21 restored with the object: an update from the last baseline", live: 1,
			history: stored(1, 2), replaced: text(sized(2)), want: restored, message: "has restored an old state",
		},
		{
			name: "ESS-21 restored with the object, which was then edited", live: 3,
			history: stored(1, 2), replaced: text(sized(2)), want: restoredAndEdited, message: "has restored an old state",
		},
		{
			name: "ESS-21 an older baseline", live: 1,
			history: stored(1, 5, 6, 2), replaced: text(sized(2)), want: restored, message: "has restored an old state",
		},
		{
			name: "ESS-21 only the baseline was replaced: the object is unchanged", live: 2,
			history: stored(1, 2), replaced: text(sized(2)),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(2), Unchanged: true}, message: "has replaced the last-handled",
		},
		{
			name: "ESS-21 only the baseline was replaced, and the last one is not known", live: 2, history: stored(1, 2),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(2), Unchanged: true}, message: "has replaced the last-handled",
		},
		{
			name: "ESS-21 only the baseline was replaced, by one that is not known", live: 2, history: stored(7, 2), replaced: text(sized(2)),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(2), Unchanged: true}, message: "has replaced the last-handled",
		},
		{
			name: "ESS-21 the last baseline is not known", live: 1, history: stored(1, 2),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(1), Unchanged: true},
		},
		{
			name: "ESS-21 another process has handled the object since", live: 1, history: stored(7, 2), replaced: text(sized(2)),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(1), Unchanged: true},
		},
		{
			name: "ESS-21 another process has handled the object since, and it was edited", live: 3, history: stored(7, 2), replaced: text(sized(2)),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), Diff: changed(1, 3)},
		},
		{
			name: "ESS-21 the replaced baseline is not the last one", live: 1, history: stored(1, 2), replaced: text(sized(6)),
			want: cause.Cause{Reason: cause.Noop, Facts: hasBaseline, Old: sized(1), Unchanged: true},
		},
		{
			name: "ESS-21 this process has stored the baseline again", live: 3, history: stored(1, 2, 1),
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), Diff: changed(1, 3)},
		},
		{
			name: "ESS-21 this process has stored no baseline", live: 3,
			want: cause.Cause{Reason: cause.Update, Facts: hasChange, Old: sized(1), Diff: changed(1, 3)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var lines []string
			test.want.New, test.want.Live = sized(test.live), sized(test.live)
			got := detect(cause.Input{
				Content: object(sized(test.live)), Baseline: text(sized(1)), History: test.history, Replaced: test.replaced, Log: logTo(&lines),
			})
			equal(t, "cause", got, test.want)
			if logged := strings.Join(lines, "\n"); (test.message == "") != (len(lines) == 0) || !strings.Contains(logged, test.message) {
				t.Errorf("log does not consist of a line with %q:\n%s", test.message, logged)
			}
		})
	}
}

// The pin of the interrupted cycle belongs to the replaced baseline. The records of all causes are discarded, so they do not show that a
// cycle has begun.
func TestDetect_PinWithRestoredBaseline(t *testing.T) {
	for _, test := range []struct {
		name    string
		pin     cause.Pin
		records records
		want    cause.Cause
	}{
		{
			"ESS-21 discarded records do not keep the pin", cause.Pin{Snapshot: snapshot(sized(3))}, attempted(cause.Update),
			cause.Cause{New: sized(1), Old: sized(2), Diff: changed(2, 1), StalePin: true},
		},
		{
			"ESS-21 a pin that was stored before the records", cause.Pin{Snapshot: snapshot(sized(3)), Ahead: true}, attempted(cause.Update),
			cause.Cause{New: sized(3), Old: sized(2), Diff: changed(2, 3)},
		},
		{
			"ESS-21 a handler has seen another state", cause.Pin{Seen: new(snapshot(sized(3)))}, records{},
			cause.Cause{New: sized(1), Old: sized(2), Diff: changed(2, 1), WasReversed: true},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := detect(cause.Input{
				Content: object(sized(1)), Baseline: text(sized(1)), History: stored(1, 2), Replaced: text(sized(2)),
				Pin: pinText(test.pin, text(sized(2))), Progress: test.records,
			})
			want := test.want
			want.Reason, want.Facts, want.Live = cause.Update, hasChange, sized(1)
			want.OutdatedBaseline, want.RestoredBaseline, want.Reset = true, true, cause.RestartAllCauses
			equal(t, "cause", got, want)
		})
	}
}

// A reversal restarts the handlers of the update. It does not replace the restart of all causes.
func TestDetect_ReversalKeepsRestartOfAllCauses(t *testing.T) {
	// A client has restored an old state of the object. A daemon has then repeated the change that the last baseline contains.
	base, last := sized(1), sized(2)
	got := detect(cause.Input{
		Content: object(sized(2)), Baseline: text(base), History: stored(7, 1, 2), Replaced: text(sized(2)),
		Pin: pinText(cause.Pin{Snapshot: snapshot(sized(3)), Ahead: true}, text(last)),
	})
	equal(t, "ESS-21 the object is unchanged: reason", got.Reason, cause.Update)
	equal(t, "ESS-21 the object is unchanged: reset", got.Reset, cause.RestartUpdate)

	got = detect(cause.Input{
		Content: object(m{"spec": m{"size": int64(2), "own": "x"}}), Baseline: text(base), History: stored(7, 1, 2), Replaced: text(sized(2)),
		Pin:   pinText(cause.Pin{Snapshot: snapshot(sized(3)), Ahead: true}, text(last)),
		Edits: []cause.BackgroundEdit{edit(last, m{"spec": m{"own": "x"}})},
	})
	equal(t, "ESS-21 a daemon has edited the object: reversed", got.Reversed, true)
	equal(t, "ESS-21 a daemon has edited the object: reset", got.Reset, cause.RestartAllCauses)
}

func TestHistory_With(t *testing.T) {
	var none *cause.BaselineHistory
	t.Run("ESS-21 the baseline of an earlier process is known", func(t *testing.T) {
		h := none.With(text(sized(2)), text(sized(1)))
		equal(t, "older", h.Older, []uint64{stored(1).Last})
		equal(t, "last", h.Last, stored(2).Last)
	})
	t.Run("ESS-21 a first baseline", func(t *testing.T) {
		h := none.With(text(sized(1)), nil)
		equal(t, "older", h.Older, []uint64(nil))
		equal(t, "replaced", h.BaselineReplaced(text(sized(1))), false)
		equal(t, "another one is replaced", h.BaselineReplaced(text(sized(2))), true)
	})
	t.Run("ESS-21 nothing is replaced without a baseline of this process", func(t *testing.T) {
		equal(t, "replaced", none.BaselineReplaced(text(sized(1))), false)
	})
	t.Run("ESS-21 the baseline is stored again", func(t *testing.T) {
		h := stored(1, 2)
		equal(t, "history", h.With(text(sized(2)), text(sized(9))), h)
	})
	t.Run("ESS-21 the first baseline of this process is the one of an earlier process", func(t *testing.T) {
		equal(t, "history", none.With(text(sized(1)), text(sized(1))), stored(1))
	})
	t.Run("ESS-21 the newest of the older baselines comes first", func(t *testing.T) {
		equal(t, "older", stored(1, 2, 3).Older, []uint64{stored(2).Last, stored(1).Last})
	})
	t.Run("ESS-21 With ignores the object's previous baseline if this process has already stored one", func(t *testing.T) {
		equal(t, "older", stored(1).With(text(sized(3)), text(sized(9))).Older, []uint64{stored(1).Last})
	})
	t.Run("ESS-21 the number of older baselines is limited", func(t *testing.T) {
		for _, row := range []struct{ stored, want int }{{16, 15}, {17, 16}, {18, 16}, {40, 16}} {
			var sizes []int
			for size := range row.stored {
				sizes = append(sizes, size)
			}
			h := stored(sizes...)
			equal(t, fmt.Sprintf("older of %d baselines", row.stored), len(h.Older), row.want)
			equal(t, "the newest older baseline", h.Older[0], stored(row.stored-2).Last)
		}
	})
	t.Run("ESS-21 a history is not changed by its successor", func(t *testing.T) {
		h := stored(1, 2, 3)
		first := h.With(text(sized(4)), nil)
		second := h.With(text(sized(5)), nil)
		equal(t, "history", h, stored(1, 2, 3))
		equal(t, "first successor", first.Older, second.Older)
	})
}

// Detect also recognizes a restored baseline if only the digest of the last baseline is stored.
func TestDetect_RestoredBaselineWithDigest(t *testing.T) {
	last := digestText(sized(2))
	h := stored(1).With(last, text(sized(1)))
	got := detect(cause.Input{Content: object(sized(1)), Baseline: text(sized(1)), History: h, Replaced: last})
	equal(t, "ESS-21 B-31 cause", got, cause.Cause{
		Reason: cause.Update, Facts: hasChange, New: sized(1), Live: sized(1),
		OutdatedBaseline: true, RestoredBaseline: true, Reset: cause.RestartAllCauses,
	})
	if got.IsOldKnown() {
		t.Error("IsOldKnown = true, want false, because only a digest is stored")
	}
}
