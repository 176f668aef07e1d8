package engine

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// newCommitter returns the committer for the kind of the engine.
func (e *Engine) newCommitter(baseline essence.DigestBaseline) *commit.Committer {
	return &commit.Committer{
		Builder: &commit.Builder{
			Detector: e.detector, Store: e.Store, Baseline: baseline, Pin: e.Pin, HandlerIDs: e.Handlers.IDs(), Finalizer: e.Finalizer, HasStatus: e.HasStatus,
		},
		Writer: &patch.Writer{
			Client: e.Client, APIReader: e.APIReader, NewObject: e.New, GVK: e.GVK, HasStatus: e.HasStatus,
			OnConflict: metrics.WriteConflicts.WithLabelValues(e.Name).Inc,
		},
		Name: e.Name, Remote: e.Remote, Fence: e.Fence, ConsistencyTimeout: e.ConsistencyTimeout, TracksVersions: len(e.ReconcileHandlers.IDs()) > 0,
		ReadCached: e.readCached, ReadLive: e.readLive, Pauses: e.pauses.Load, HasEnded: e.ended.Load,
		OnWritten: e.states.UpdateUnlessOlder, OnBaseline: e.states.NoteStoredBaseline,
		Warn: e.events.Warn,
	}
}

// commit writes the outcomes of the reconcile. If the cause is over, the write removes the records and stores the baseline.
func (e *Engine) commit(ctx context.Context, r *reconciliation) error {
	r.ReportConditions(ctx)
	if !r.Cause.Reason.HasHandlers() && !r.HasLeftovers() && !r.HasChanges() {
		r.postEvents()
		return nil
	}
	r.End(r.Cause.Reason == cause.Delete && e.supervisor.Busy(r.Base().GetUID()))
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

// setProgressNotStored sets or removes the condition that reports progress that the API server has rejected, for kinds that declare conditions.
func (e *Engine) setProgressNotStored(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case r.Memory.Overlay == nil:
		set.Remove(commit.ProgressNotStored)
	default:
		set.True(commit.ProgressNotStored, reasonRejected, r.Memory.Overlay.Message)
	}
}
