package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

// commit writes the reconcile's outcomes: the handlers' changes, and the records and the pin of a cycle that isn't over. Once it is over,
// the same write removes the records and the pin, and stores the handled essence as the baseline; for a deletion, it removes the
// finalizer instead. A deletion also waits for the object's daemons and timers.
func (e *Engine) commit(ctx context.Context, r *reconciliation) (Hold, error) {
	r.reportConditions(ctx)
	if !r.session.Cause.Reason.HasHandlers() && !r.session.HasLeftovers() && !r.draft.HasChanges() && !r.hasAnswers() {
		r.postEvents(r.draft.Base())
		return Hold{}, nil
	}
	r.session.EndCalls(r.session.Cause.Reason == cause.Delete && e.background.supervisor.Busy(r.draft.Base().GetUID()))
	if r.session.Cause.Reason == cause.Resume && r.hasNothingToWrite() {
		r.noteHandled()
		r.postEvents(r.draft.Base())
		return Hold{}, nil
	}
	written, err := r.write(ctx)
	if err != nil || written == nil {
		return Hold{}, err
	}
	if r.session.IsFinished() {
		r.checkNote(ctx)
	}
	if r.session.IsFinished() && len(r.matching.selection.Selected) > 0 {
		sum := r.session.Records.Summary()
		log.FromContext(ctx).Info("Handled", "reason", r.session.Cause.Reason, "succeeded", sum.Succeeded, "failed", sum.Failed)
	}
	return Hold{}, nil
}

// write writes all changes since the last write. It returns the object after the write, or nil if the object no longer exists.
func (r *reconciliation) write(ctx context.Context) (client.Object, error) {
	defer r.noteResult()
	r.session.Annotate = func(annotations map[string]string) {
		r.answerRequests(annotations)
		r.noteRevisions(annotations)
	}
	result, err := r.session.Write(ctx, r.reportConditions)
	if r.details.Pending = nil; result.Pending {
		r.details.Pending = r
	}
	return result.Object, err
}

// reportConditions adds the conditions about handlers and the observed generation to the pending changes.
func (r *reconciliation) reportConditions(ctx context.Context) {
	if raised, isReported := r.session.RaiseObserved(ctx); isReported && r.details.Background != nil {
		r.details.Background.DropRaised(raised)
	}
	if r.engine.traits.reportsConditions {
		r.engine.reportConditions(ctx, r)
	}
}

// noteResult records what a write has done. It must be deferred, because a user's store may panic after the API server has accepted some of
// the requests.
func (r *reconciliation) noteResult() {
	result := r.session.Result()
	r.calls.aborted = r.calls.aborted || result.Rejected || result.Deleted
	for _, version := range result.Awaited {
		r.known.SetAwaitedVersion(version, r.engine.ConsistencyTimeout)
	}
	for _, accepted := range result.Accepted {
		if r.noteChanges(accepted); !accepted.Whole {
			continue
		}
		if a := r.details.Background; a != nil {
			a.Drop(r.edits...)
		}
		r.edits = nil
		if r.session.IsFinished() {
			r.noteHandled()
		}
		r.calls.workTime, r.calls.unsaved = 0, false
		r.postEvents(accepted.Before.Object)
	}
	if result.Deleted {
		r.postEvents(r.draft.Base())
	}
}

// noteChanges records the handlers' changes that the API server has accepted, so that they don't count as changes by other clients.
func (r *reconciliation) noteChanges(accepted commit.Accepted) {
	e := r.engine
	if a := r.details.Background; a != nil && len(accepted.Changes) > 0 {
		after := e.detector.Essence.Build(accepted.Changes.Apply(accepted.Before.Content))
		a.NoteWorkerWrite(essence.DigestOf(accepted.Live), essence.DigestOf(after), accepted.Version)
	}
	if e.traits.handlesOwnChanges && accepted.Stored != nil {
		e.noteOwnChanges(r, accepted)
	}
}

// postEvents posts Events about the attempts since the last write. obj is the object before the write.
func (r *reconciliation) postEvents(obj client.Object) {
	events := r.engine.events
	for _, a := range r.report.attempts[r.report.posted:] {
		if st := a.reconciles; st != nil {
			st.failed = events.PostTransition(obj, a.ID, st.failed, a.Before, a.Outcome)
		} else {
			events.PostOutcome(obj, a.ID, a.Before, a.Outcome)
		}
	}
	r.report.posted = len(r.report.attempts)
}
