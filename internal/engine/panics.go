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
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reasonPanicked is the reason of the condition that reports panics.
const reasonPanicked = "HandlerPanicked"

const (
	maxPanicText = 200 // characters of a panic in the condition
	maxPanics    = 10  // handlers in the condition
	// daemonRecovery is the time for which a daemon must run after a panic until it counts as recovered.
	daemonRecovery = time.Minute
)

// panicChange is the effect of an attempt on the condition that reports panics.
type panicChange struct {
	id   string
	text string // the first line of the panic; empty after a success
}

// panicChangeOf returns the effect of an outcome, and false if it has none.
func panicChangeOf(id string, o progress.Outcome) (panicChange, bool) {
	if panicked, ok := errors.AsType[*progress.PanicError](o.Err); ok {
		text, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(panicked.Value)), "\n")
		if runes := []rune(text); len(runes) > maxPanicText {
			text = string(runes[:maxPanicText])
		}
		return panicChange{id, text}, true
	}
	return panicChange{id: id}, o.Success && o.Err == nil
}

// notePanic records the effect of an attempt on the condition that reports panics.
func (e *Engine) notePanic(r *reconciliation, id string, o progress.Outcome) {
	if change, ok := panicChangeOf(id, o); ok && e.PanicCondition != "" {
		r.panicChanges = append(r.panicChanges, change)
	}
}

// noteBackgroundPanic records the effect of an attempt of a daemon or a timer on the condition that reports panics. The worker writes the condition.
func (e *Engine) noteBackgroundPanic(uid types.UID, a *backgroundState, change panicChange) {
	if e.PanicCondition == "" || change.text == "" && !e.reportsPanicOf(uid, change.id) {
		return
	}
	a.mu.Lock()
	a.panicChanges = append(a.panicChanges, change)
	a.mu.Unlock()
	e.enqueue(uid)
}

// awaitRecovery records that a daemon has recovered from a panic if it runs for some time. The caller must call stop when the daemon ends.
func (e *Engine) awaitRecovery(uid types.UID, id string, b *invoke.BackgroundHandler, a *backgroundState) (stop func() bool) {
	if e.PanicCondition == "" || b.Task.Timer != nil {
		return func() bool { return true }
	}
	return time.AfterFunc(daemonRecovery, func() { e.noteBackgroundPanic(uid, a, panicChange{id: id}) }).Stop
}

// reportsPanicOf reports whether the condition of the newest known state of an object names a handler.
func (e *Engine) reportsPanicOf(uid types.UID, id string) bool {
	newest := e.states.Newest(uid)
	if newest == nil {
		return false
	}
	set, err := conditions.For(newest.DeepCopyObject().(client.Object), e.conditionOptions()...)
	if err != nil {
		return false
	}
	condition, _ := set.Get(e.PanicCondition)
	_, found := parsePanics(condition)[id]
	return found
}

// takePanicChanges returns the recorded changes by daemons and timers, and clears them.
func (a *backgroundState) takePanicChanges() []panicChange {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changes := a.panicChanges
	a.panicChanges = nil
	return changes
}

// setPanicked sets the condition that reports panics. The condition itself stores which handlers have panicked, so that a restart changes nothing.
func (e *Engine) setPanicked(r *reconciliation, set *conditions.Set) {
	if e.PanicCondition == "" {
		return
	}
	r.panicChanges = append(r.panicChanges, r.known.Worker.Background.takePanicChanges()...)
	before, exists := set.Get(e.PanicCondition)
	panics := parsePanics(before)
	for _, change := range r.panicChanges {
		if change.text == "" {
			delete(panics, change.id)
		} else {
			panics[change.id] = change.text
		}
	}
	recovered := r.isFinished() && r.cause.Reason != cause.Delete && r.state.Summary().Failed == 0
	maps.DeleteFunc(panics, func(id, _ string) bool {
		return recovered && isOneOf(e.Handlers.IDs(), id) || !isOneOf(e.handlerIDs(), id)
	})
	switch {
	case len(panics) > 0:
		set.True(e.PanicCondition, reasonPanicked, formatPanics(panics))
	case exists && before.Reason != reasonPanicked && before.Reason != conditions.ReasonNotReported, r.cause.Deleting && !exists:
	default:
		set.False(e.PanicCondition, conditions.ReasonAsExpected, "")
	}
}

// isOneOf reports whether an id is one of the given ids, or that of a sub-handler.
func isOneOf(ids []string, id string) bool {
	return slices.ContainsFunc(ids, func(known string) bool { return id == known || strings.HasPrefix(id, known+"/") })
}

const panicPrefix = "handler "

// formatPanics returns the message of the condition: a line for each handler.
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
