package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonPanicked is the reason of the condition that reports panics.
const reasonPanicked = "HandlerPanicked"

const (
	maxPanicText = 200 // characters of a panic in the condition
	maxPanics    = 10  // handlers in the condition
	// daemonRecovery is how long a daemon must run after a panic to count as recovered.
	daemonRecovery = time.Minute
)

// panicChangeOf returns an outcome's effect on the condition that reports panics, and false if it has none.
func panicChangeOf(id string, o progress.Outcome) (panicChange, bool) {
	if panicked, ok := errors.AsType[*progress.PanicError](o.Err); ok {
		text, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(panicked.Value)), "\n")
		if runes := []rune(text); len(runes) > maxPanicText {
			text = string(runes[:maxPanicText-1]) + "…"
		}
		return panicChange{id, text}, true
	}
	return panicChange{id: id}, o.Success && o.Err == nil
}

// reportBackground reports the outcome of a daemon's or timer's attempt: it posts Events, and notes a panic for the condition. obj is nil
// for a deleted object.
func (e *Engine) reportBackground(uid types.UID, obj client.Object, id string, failed bool, before progress.Record, outcome progress.Outcome) (fails bool) {
	if change, ok := panicChangeOf(id, outcome); ok && obj != nil {
		e.noteBackgroundPanic(uid, change)
	}
	return e.events.PostTransition(obj, id, failed, before, outcome)
}

// noteBackgroundPanic records what a daemon's or timer's attempt changes in the condition that reports panics. The worker writes the
// condition.
func (e *Engine) noteBackgroundPanic(uid types.UID, change panicChange) {
	if e.PanicCondition == "" || change.text == "" && !e.reportsPanicOf(uid, change.id) {
		return
	}
	e.background.panicChanges.Update(uid, func(changes []panicChange, _ bool) ([]panicChange, bool) {
		return append(slices.Clip(changes), change), true
	})
	e.enqueue(uid)
}

// beginBackgroundCall is called before each call of a daemon or timer, and the function it returns afterwards. A daemon that runs for
// daemonRecovery has recovered from a panic.
func (e *Engine) beginBackgroundCall(uid types.UID, id string) (end func()) {
	ended := e.countRun(uid)
	if handler, _ := e.BackgroundHandlers.Get(id); e.PanicCondition == "" || handler.Task.Timer != nil {
		return ended
	}
	recovery := time.AfterFunc(daemonRecovery, func() { e.noteBackgroundPanic(uid, panicChange{id: id}) })
	return func() {
		recovery.Stop()
		ended()
	}
}

// reportsPanicOf reports whether the condition in an object's newest known state names a handler. It guards against panics itself, because
// some of the goroutines that call it don't.
func (e *Engine) reportsPanicOf(uid types.UID, id string) bool {
	newest := e.states.Newest(uid)
	if newest == nil {
		return false
	}
	found := false
	err := e.guard(func() error {
		set, err := conditions.For(newest.DeepCopyObject().(client.Object), e.traits.conditionPlaces...)
		if err != nil {
			return err
		}
		condition, _ := set.Get(e.PanicCondition)
		_, found = parsePanics(condition)[id]
		return nil
	})
	if err != nil {
		guard.WithStack(e.logOf(newest), err).Error(err, "Failed to report the conditions", "handler", id)
	}
	return found
}

// setPanicked sets the condition that reports panics. The condition itself stores which handlers have panicked, so a restart changes
// nothing.
func (e *Engine) setPanicked(r *reconciliation, set *conditions.Set) {
	if e.PanicCondition == "" {
		return
	}
	r.report.panicChanges = append(r.report.panicChanges, e.background.panicChanges.Take(r.draft.Base().GetUID())...)
	changes := slices.Clone(r.report.panicChanges)
	for _, a := range r.report.attempts {
		if change, ok := panicChangeOf(a.ID, a.Outcome); ok {
			changes = append(changes, change)
		}
	}
	before, exists := set.Get(e.PanicCondition)
	panics := parsePanics(before)
	for _, change := range changes {
		if change.text == "" {
			delete(panics, change.id)
		} else {
			panics[change.id] = change.text
		}
	}
	recovered := r.session.IsFinished() && r.session.Cause.Reason != cause.Delete && r.session.Records.Summary().Failed == 0
	maps.DeleteFunc(panics, func(id, _ string) bool {
		return recovered && isOneOf(e.Handlers.IDs(), id) || !isOneOf(e.handlerIDs(), id)
	})
	switch {
	case len(panics) > 0:
		set.True(e.PanicCondition, reasonPanicked, formatPanics(panics))
	case exists && before.Reason != reasonPanicked && before.Reason != conditions.ReasonNotReported, r.session.Cause.Deleting && !exists:
	default:
		set.False(e.PanicCondition, conditions.ReasonAsExpected, "")
	}
}

// isOneOf reports whether an id is one of the given ids, or that of one of their sub-handlers.
func isOneOf(ids []string, id string) bool {
	return slices.ContainsFunc(ids, func(known string) bool { return id == known || strings.HasPrefix(id, known+"/") })
}

const panicPrefix = "handler "

// formatPanics returns the condition's message: one line per handler, and at most maxPanics lines.
func formatPanics(panics map[string]string) string {
	var lines []string
	for _, id := range slices.Sorted(maps.Keys(panics)) {
		lines = append(lines, fmt.Sprintf("%s%q panicked: %s", panicPrefix, id, panics[id]))
	}
	return strings.Join(lines[:min(len(lines), maxPanics)], "\n")
}

// parsePanics returns the panics in a condition, by handler.
func parsePanics(c metav1.Condition) map[string]string {
	panics := map[string]string{}
	if c.Status != metav1.ConditionTrue || c.Reason != reasonPanicked {
		return panics
	}
	for line := range strings.SplitSeq(c.Message, "\n") {
		rest, ok := strings.CutPrefix(line, panicPrefix)
		quoted, err := strconv.QuotedPrefix(rest)
		if !ok || err != nil {
			continue
		}
		id, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
		panics[id] = strings.TrimPrefix(rest[len(quoted):], " panicked: ")
	}
	return panics
}

// countRun counts a run of a daemon or a timer until the returned function is called.
func (e *Engine) countRun(uid types.UID) (ended func()) {
	add := func(n int) {
		e.background.runs.Update(uid, func(running int, _ bool) (int, bool) { return running + n, running+n > 0 })
	}
	add(1)
	return func() { add(-1) }
}
