package commit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// OvertakenBy returns the live object if another client has made the pending write obsolete during a pause: the client has stored other progress, or changed
// the same fields. Otherwise, OvertakenBy returns nil, and the session can be written. OvertakenBy reads the object from the API server, because the cache may
// lack the last write of the other client. suspensions is the number of suspensions before the read.
func (s *Session) OvertakenBy(ctx context.Context, suspensions int64) (client.Object, error) {
	if s.Pauses == s.committer.Pauses() {
		return nil, nil
	}
	live, err := s.committer.ReadLive(ctx, client.ObjectKeyFromObject(s.Draft.Base()))
	if err != nil || live == nil || live.GetUID() != s.Draft.Base().GetUID() {
		return nil, err // if the object is deleted, the next write returns patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return nil, err
	}
	saved, err := s.savedByOther(ctx)
	if err != nil || !saved && s.isUnchangedIn(content) {
		s.Pauses, s.Suspensions = s.committer.Pauses(), suspensions
		return nil, err
	}
	log.FromContext(ctx).Info("Dropped the pending write from before the pause: another client has changed the object")
	for _, p := range s.Draft.patches {
		if p.Repeat != nil {
			p.Repeat()
		}
	}
	return live, nil
}

// isUnchangedIn reports whether other clients have left a state of the object unchanged since the handlers were called. It compares the framework's part, and
// accepts the old and the new values of the fields that the handlers have changed.
func (s *Session) isUnchangedIn(content map[string]any) bool {
	if !s.builder.SameFrameworkPart(s.Draft.Stored().Content, content) {
		return false
	}
	var changes patch.MergePatch
	for _, p := range s.Draft.patches {
		changes = patch.Merge(changes, p.Patch)
	}
	return IsUntouched(changes, s.Draft.Content(), content)
}

// IsUntouched reports whether each field of a patch has either its earlier value or the value of the patch.
func IsUntouched(change patch.MergePatch, before, content map[string]any) bool {
	left := change.Unapplied(content)
	return diff.Equal(map[string]any(left.CurrentValues(content)), map[string]any(left.CurrentValues(before)))
}

// dropFields removes fields that another client has changed from the pending changes. The session then computes the handled essence without these fields, so
// that the engine detects the change of the other client as an update.
func (s *Session) dropFields(ctx context.Context, fields patch.MergePatch) {
	s.writing.reduced, s.writing.change = DropOverwrittenFields(ctx, s.writing.change, fields), nil
	for _, p := range s.Draft.patches {
		p.Patch = p.Patch.WithoutOverwritten(fields, s.Draft.Content())
	}
	s.writing.revert = s.writing.revert.WithoutOverwritten(fields, s.Draft.Content())
}

// DropOverwrittenFields returns a change without fields that another client has changed while the outcome of an earlier request was unknown.
func DropOverwrittenFields(ctx context.Context, change *patch.Change, fields patch.MergePatch) *patch.Change {
	log.FromContext(ctx).Info("Dropped changes of handlers: another client has changed the same fields while the outcome of the write was unknown",
		"fields", errtext.Some(fields.Paths()))
	out := &patch.Change{Before: change.Before, Content: change.Content, HandlerPatch: change.HandlerPatch.WithoutOverwritten(fields, change.Content), ReadUntyped: change.ReadUntyped}
	out.ResumeFrom(change)
	return out
}

// releaseTries is the number of attempts to write other changes together with the removal of the finalizer. The next attempt only removes the finalizer.
const releaseTries = 5

// giveUpPatches counts a failed attempt to write the change. If other changes have prevented the
// removal of the finalizer releaseTries times, giveUpPatches drops the other changes and returns true. The object can then be deleted.
func (s *Session) giveUpPatches(ctx context.Context, writeErr error) bool {
	s.writing.failures++
	if s.writing.change.RemoveFinalizer == "" || s.writing.failures < releaseTries || len(s.writing.change.HandlerPatch)+len(s.writing.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(writeErr, "Failed to write the other changes repeatedly; only the finalizer is removed")
	s.writing.change.HandlerPatch, s.writing.change.FrameworkPatch, s.writing.baseline = nil, nil, nil
	return true
}
