package engine

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
)

// reconciliation is one reconcile of one object. Only the worker of the object uses it. Its parts belong to one phase each.
type reconciliation struct {
	commit.Session // the object with the pending changes, the cause and the records

	engine     *Engine
	known      *objectState
	afterEpoch bool               // the cache had reached the epoch before the object was read
	edits      []*background.Edit // the edits by daemons and timers that are part of Cause.Old
	old        client.Object      // the object of Cause.Old; nil until it is needed

	matching matching
	calls    calls
	report   report
}

// matching are the handlers whose filters accept the object.
type matching struct {
	view       *invoke.View // for the predicates of handlers
	handlers   []string     // the cause handlers
	selection  plan.Selection
	background []string // the daemons and timers
	reconciles bool     // a reconcile handler matches
}

// calls are the calls of cause handlers in this reconcile.
type calls struct {
	plan         plan.Plan
	called       []string
	finishedSubs []string      // the finished sub-handlers of handlers that wait for them
	workTime     time.Duration // the time in handlers since the last write
	unsaved      bool          // handlers were called since the last write
	err          error         // the error of a write between handlers
}

// report is what the reconcile reports about its attempts after the write.
type report struct {
	pending       []func()           // post the Events about attempts
	outcomes      []reconcileOutcome // of reconcile handlers with a condition
	setByHandlers []string           // the types of conditions that handlers have set themselves
}

// newReconciliation returns a reconciliation without an object.
func (e *Engine) newReconciliation(known *objectState) *reconciliation {
	r := &reconciliation{engine: e, known: known}
	r.Session = e.committer.NewSession(&known.Worker.Writes, known, r)
	return r
}

// backgroundState returns the state of the daemons and timers of the object, and creates it if there is none.
func (r *reconciliation) backgroundState() *background.State {
	if r.known.Worker.Background == nil {
		r.known.Worker.Background = &background.State{}
	}
	return r.known.Worker.Background
}

// subject is the input of the filters of cause handlers.
func (r *reconciliation) subject() match.Input {
	return match.Input{Object: r.Content(), HasCause: true, Old: r.Cause.Old, New: r.Cause.New}
}

// hasNothingToWrite is a cheap check for the most frequent case at a start of the operator: the object is handled completely.
func (r *reconciliation) hasNothingToWrite() bool {
	return len(r.matching.selection.Selected) == 0 && r.IsAtRest()
}

// ReportConditions implements [commit.Host].
func (r *reconciliation) ReportConditions(ctx context.Context) {
	if r.engine.reportsConditions {
		r.engine.reportConditions(ctx, r)
	}
}

// AfterWrite implements [commit.Host].
func (r *reconciliation) AfterWrite(ctx context.Context, changed patch.MergePatch, version string) {
	e := r.engine
	if a := r.known.Worker.Background; a != nil {
		if len(changed) > 0 {
			a.NoteWorkerWrite(essence.DigestOf(r.Cause.Live), essence.DigestOf(e.detector.Essence.Build(changed.Apply(r.Content()))), version)
		}
		a.Drop(r.edits...)
	}
	r.edits = nil
	if r.IsFinished() {
		r.known.Worker.Handled = true
		e.reportLoops(ctx, r)
	}
	r.calls.workTime, r.calls.unsaved = 0, false
	r.postEvents()
}

// Deleted implements [commit.Host].
func (r *reconciliation) Deleted() { r.postEvents() }

// postEvents posts the Events about the attempts. It runs after the write, because the API server may reject the changes of a handler, and the attempt then fails.
func (r *reconciliation) postEvents() {
	for _, post := range r.report.pending {
		post()
	}
	r.report.pending = nil
}
