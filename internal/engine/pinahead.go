package engine

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// pinAhead stores the pin before a request that changes essential fields of the status. The records and the baseline are stored by a
// later request. If the process ended between the two without a pin, the next one would take the new status for the state that is
// being handled: handlers for the old state would not match any more, and handlers for the new state would not be called.
func (e *Engine) pinAhead(ctx context.Context, r *reconciliation, changed patch.MergePatch) error {
	if !e.HasStatus || r.gone || r.known.Worker.Overlay != nil || r.cause.PinnedDigest != "" || r.cause.Reason != cause.Create && r.cause.Reason != cause.Update {
		return nil
	}
	isPinned := e.Pin.Fetch(r.before) != nil && !r.cause.StalePin
	status, ok := changed["status"]
	if !ok || isPinned || e.keepsEssence(r.content, patch.MergePatch{"status": status}) {
		return nil
	}
	change, err := e.builder.BuildPin(r.before, r.content, &r.cause)
	if err != nil {
		return fmt.Errorf("pinning the object: %w", err)
	}
	written, err := e.send(ctx, r, change)
	switch {
	case isRejected(err):
		log.FromContext(ctx).Info("Cannot pin the object before its status changes: after a crash, handlers may not match any more", "error", err.Error())
		return nil
	case err != nil || written == nil:
		return err
	}
	return r.continueFrom(written)
}

// continueFrom bases the pending changes on a newer state of the object.
func (r *reconciliation) continueFrom(written client.Object) error {
	content, err := patch.Content(written)
	if err != nil {
		return err
	}
	for _, s := range r.handlerPatches {
		s.doc = s.doc.Rebase(r.content, content)
	}
	r.before, r.content, r.needsRebase = written, content, true
	return nil
}

// keepsEssence reports whether a change of the status leaves the essence as it is.
func (e *Engine) keepsEssence(content map[string]any, status patch.MergePatch) bool {
	if len(e.Fields)+len(e.Conditions) == 0 {
		return true
	}
	return !e.detector.AffectsEssence(content, status)
}
