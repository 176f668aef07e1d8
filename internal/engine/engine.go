package engine

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/background"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/lazylog"
	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Reconcile handles the object of a key. The key is the only input: the cause follows from the state of the object, and the due handlers follow from its
// records.
func (e *Engine) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	key := req.NamespacedName
	defer e.trackReconcile(key)()
	if e.Scope != nil || e.Shard != nil {
		switch {
		case !e.inScope(key):
			return e.requeueErrors(key)(e.release(ctx, key))
		case e.deferUntilAdmitted(ctx, key):
			return reconcile.Result{}, nil
		}
	}
	var again, vanished time.Duration
	if len(e.EventHandlers.IDs()) > 0 {
		again = e.callEventHandlers(ctx, key)
	}
	if e.Pause != nil && e.deferIfPaused(ctx, key) {
		return requeueBefore(reconcile.Result{}, again), nil
	}
	if e.states.HasDeleted(key) || len(e.tombstones.Get(key)) > 0 {
		vanished = e.handleDeleted(ctx, key)
	}
	if result, err = e.requeueErrors(key)(e.reconcile(ctx, key)); err == nil {
		result = requeueBefore(requeueBefore(result, vanished), again)
	}
	if result.RequeueAfter > 0 {
		e.states.MarkQueuedAt(key, time.Now().Add(result.RequeueAfter))
	}
	return result, err
}

// requeueErrors returns a function that replaces expected errors by a delay, see requeueFor, and records the errors for explanations.
func (e *Engine) requeueErrors(key types.NamespacedName) func(reconcile.Result, error) (reconcile.Result, error) {
	return func(result reconcile.Result, err error) (reconcile.Result, error) {
		delay, unexpected := requeueFor(err)
		if delay == 0 && unexpected == nil {
			err = nil // the object is deleted
		}
		e.setFailure(key, err, delay > 0)
		if delay > 0 || unexpected != nil {
			return reconcile.Result{RequeueAfter: delay, Priority: new(retrying)}, unexpected
		}
		return result, nil
	}
}

// reconcile takes the object through the phases: observe, cause, plan, invoke, commit, schedule.
func (e *Engine) reconcile(ctx context.Context, key types.NamespacedName) (none reconcile.Result, err error) {
	r, err := e.observe(ctx, key)
	e.noteObject(key, r)
	if r == nil || err != nil {
		return none, err
	}
	defer r.known.Unlock()
	if e.Shard != nil && e.Shard.Leaves(r.Base()) {
		return none, nil // the informer will deliver this state, and the engine then releases the object
	}
	ctx = log.IntoContext(ctx, lazylog.New(log.FromContext(ctx)).WithValues("uid", string(r.Base().GetUID())))
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(r.Base().GetUID()))
	if wait, err := e.awaitFreshCache(ctx, r); wait > 0 || err != nil { // after our own writes
		return requeue(wait), err
	}
	if err := e.evaluate(ctx, r); err != nil {
		return none, err
	}
	if _, annotated := r.Base().GetAnnotations()[PausedAnnotation]; annotated {
		if paused, err := e.holdIfPaused(ctx, r); paused {
			return none, err
		}
	}
	if !r.known.Worker.SeenSinceStart { // shortly after the start of the process
		var wait time.Duration
		if r, wait, err = e.verifyAgainstEpoch(ctx, r); wait > 0 || err != nil {
			return requeue(wait), err
		}
	}
	if e.Shard != nil && e.Shard.Leaves(r.Base()) {
		return none, nil // the object was read from the API server; the informer will deliver this state
	}
	if wait, err := e.ensureFinalizer(ctx, r); wait > 0 || err != nil { // for delete handlers, daemons and timers
		return requeue(wait), err
	}
	if len(r.matching.background) > 0 {
		e.background.Start(ctx, r.Base(), r.matching.background, r.backgroundState(), !r.known.ExistedAtStart)
	}
	guarded := ""
	if r.known.Worker.Loops != nil { // handlers have made changes that may cause their own calls
		guarded = e.guardLoops(ctx, r)
	}
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	if e.writesEventChanges {
		e.takeEventChanges(ctx, r)
	}
	if err := e.callHandlers(ctx, r); err != nil {
		return none, err
	}
	if err := e.commit(ctx, r); err != nil {
		return none, err
	}
	result := e.schedule(r)
	if r.known.Worker.Loops != nil {
		result = requeueBefore(result, e.releaseLoops(ctx, r, guarded))
	}
	e.expectOwnEvent(r, result)
	return result, nil
}

// evaluate detects the cause, and finds the handlers, daemons and timers that match the object.
func (e *Engine) evaluate(ctx context.Context, r *reconciliation) error {
	if r.Remote != nil || r.Memory.Overlay != nil { // progress that is not stored on the object
		if err := r.UseOverlay(ctx); err != nil {
			return err
		}
	}
	e.detect(ctx, r)
	e.matchHandlers(ctx, r)
	if len(e.BackgroundHandlers.IDs()) > 0 {
		r.matching.background = e.background.Select(ctx, r.Base(), r.matching.view, r.Content())
		if !r.Cause.Deleting {
			e.background.Touch(r.Base(), r.Cause.Live, r.backgroundState())
		}
	}
	return nil
}

// commit writes the outcomes of the reconcile. If the cause is over, the write removes the records and stores the baseline.
func (e *Engine) commit(ctx context.Context, r *reconciliation) error {
	r.ReportConditions(ctx)
	if !r.Cause.Reason.HasHandlers() && !r.HasLeftovers() && !r.HasChanges() {
		r.postEvents()
		return nil
	}
	r.EndCalls(r.Cause.Reason == cause.Delete && e.supervisor.Busy(r.Base().GetUID()))
	if r.Cause.Reason == cause.Resume && r.hasNothingToWrite() {
		r.known.Worker.Handled = true
		r.postEvents()
		return nil
	}
	written, err := r.Write(ctx)
	if err != nil || written == nil {
		return err
	}
	if r.IsFinished() && len(r.matching.selection.Selected) > 0 {
		sum := r.Records.Summary()
		log.FromContext(ctx).Info("Handled", "reason", r.Cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return nil
}

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

// matching contains the handlers whose filters accept the object.
type matching struct {
	view       *invoke.View // for the predicates of handlers
	handlers   []string     // the cause handlers
	selection  plan.Selection
	background []string // the daemons and timers
	reconciles bool     // a reconcile handler matches
}

// calls contains the plan and the calls of cause handlers in this reconcile.
type calls struct {
	plan         plan.Plan
	called       []string
	finishedSubs []string      // the finished sub-handlers of handlers that wait for them
	workTime     time.Duration // the time in handlers since the last write
	unsaved      bool          // handlers were called since the last write
	err          error         // the error of a write between handlers
}

// report contains what the conditions and the Events of the reconcile report.
type report struct {
	attempts     []attempt
	posted       int           // the number of attempts whose Events are posted
	panicChanges []panicChange // of daemons and timers
}

// attempt is an attempt of a cause handler or a reconcile handler that has ended. It is reported after the write, because the API server may reject the
// changes of the handler, and the attempt then fails.
type attempt struct {
	*commit.HandlerPatch
	conditionType string                 // of the condition that reports the handler; empty if there is none
	after         map[string]any         // the JSON form of the object after the attempt
	reconciles    *reconcileHandlerState // the state of the reconcile handler; nil for a cause handler
}

// noteAttempt records an attempt for the reports. recorder is the client that the handler has used; nil if it has used none.
func (r *reconciliation) noteAttempt(a attempt, recorder *loopguard.Recorder) {
	r.engine.noteWrite(r, a.ID, recorder.Written())
	a.after = r.Current().Content
	r.report.attempts = append(r.report.attempts, a)
}

// newReconciliation returns a reconciliation without an object.
func (e *Engine) newReconciliation(known *objectState) *reconciliation {
	r := &reconciliation{engine: e, known: known}
	r.Session = e.committer.NewSession(&known.Worker.Memory, known, r)
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

// hasNothingToWrite reports whether no handler is selected and no data must be written. This is the most frequent case when the operator starts.
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
func (r *reconciliation) AfterWrite(_ context.Context, written commit.AcceptedWrite) {
	e := r.engine
	if a := r.known.Worker.Background; a != nil {
		if len(written.Changes) > 0 {
			after := e.detector.Essence.Build(written.Changes.Apply(r.Content()))
			a.NoteWorkerWrite(essence.DigestOf(r.Cause.Live), essence.DigestOf(after), written.Version)
		}
		a.Drop(r.edits...)
	}
	r.edits = nil
	if r.IsFinished() {
		r.known.Worker.Handled = true
	}
	if e.handlesOwnChanges && written.Stored != nil {
		e.noteOwnChanges(r, r.Content(), written.Stored, written.Version, written.Patches...)
	}
	r.calls.workTime, r.calls.unsaved = 0, false
	r.postEvents()
}

// AfterFlush implements [commit.Host].
func (r *reconciliation) AfterFlush(before map[string]any, flushed commit.AcceptedWrite) {
	if r.engine.handlesOwnChanges {
		r.engine.noteOwnChanges(r, before, flushed.Stored, flushed.Version, flushed.Patches...)
	}
}

// Deleted implements [commit.Host].
func (r *reconciliation) Deleted() { r.postEvents() }

// postEvents posts the Events about the attempts since the last write.
func (r *reconciliation) postEvents() {
	events := r.engine.events
	for _, a := range r.report.attempts[r.report.posted:] {
		if st := a.reconciles; st != nil {
			st.failed = events.PostTransition(r.Base(), a.ID, st.failed, a.Before, a.Outcome)
		} else {
			events.PostOutcome(r.Base(), a.ID, a.Before, a.Outcome)
		}
	}
	r.report.posted = len(r.report.attempts)
}

// objectMemory contains the data that the process keeps about one object. Only the worker of the object uses it.
type objectMemory struct {
	// Handled is true after a cycle of the object has ended in this process. Resume handlers are then not called again.
	Handled bool
	// SeenAlive is true if this process has seen the object without a deletion timestamp.
	SeenAlive bool
	// OptionalDeleteCalled is true after the optional delete handlers were called.
	OptionalDeleteCalled bool
	// SeenSinceStart is true if this process has seen a version of the object that is at least as new as the start of the process.
	SeenSinceStart bool
	// Settled is true if the awaited write has ended a cycle and left nothing to do, until the next reconcile.
	Settled bool
	// PausesAtReconcile is the number of pauses before the last reconcile of the object.
	PausesAtReconcile int32
	// Memory contains the data of package commit about the writes to the object. The sessions of the object share it.
	Memory commit.Memory
	// ReconcileHandlers is the state of the reconcile handlers of the object, by handler id.
	ReconcileHandlers map[string]*reconcileHandlerState
	// Loops describes the changes by which handlers cause their own calls; nil without such changes.
	Loops *loopguard.Loops
	// Background is the state of the daemons and timers of the object.
	Background *background.State
}

type (
	objectState = objectstate.State[objectMemory]
	objectStore = objectstate.Store[objectMemory]
)

// requeue returns a result with a delay of at least a millisecond. With zero, controller-runtime would not reconcile the object again.
func requeue(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(after, time.Millisecond)}
}

// requeueBefore shortens the delay of a result. With 0, the result stays as it is.
func requeueBefore(result reconcile.Result, after time.Duration) reconcile.Result {
	if after == 0 || result.RequeueAfter > 0 && result.RequeueAfter <= after {
		return result
	}
	return reconcile.Result{RequeueAfter: after, Priority: new(retrying)}
}

// requeueFor returns a delay for expected errors: conflicts, throttling, and a suspension of the process. For a deleted object, it returns neither a delay
// nor an error. All other errors are returned as unexpected.
func requeueFor(err error) (delay time.Duration, unexpected error) {
	if errors.Is(err, patch.ErrGone) {
		return 0, nil
	}
	if errors.Is(err, fencing.ErrSuspended) {
		return time.Second, nil
	}
	if apierrors.IsConflict(err) || errors.Is(err, progress.ErrConflict) {
		return conflictPause, nil
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 && apierrors.IsTooManyRequests(err) {
		return time.Duration(seconds) * time.Second, nil
	}
	return 0, err
}

const conflictPause = 100 * time.Millisecond

func now() time.Time { return time.Now() }

func hasEnded(ctx context.Context) bool { return ctx.Err() != nil }
