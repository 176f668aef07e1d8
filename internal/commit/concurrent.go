package commit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// OvertakenBy returns the live object if another client has made the pending write obsolete during a pause: it has stored other progress,
// or changed the same fields. If OvertakenBy returns nil, the session can be written. The object is read from the API server, because the
// cache may lack the other client's last write. suspensions is the number of suspensions before the read.
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

// isUnchangedIn reports whether other clients have left the object alone since the handlers were called. The framework's part must be the
// same. Fields that the handlers have changed may have the old or the new value.
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

// IsUntouched reports whether each field of a patch still has its earlier value or already has the patch's.
func IsUntouched(change patch.MergePatch, before, content map[string]any) bool {
	left := change.Unapplied(content)
	return diff.Equal(map[string]any(left.CurrentValues(content)), map[string]any(left.CurrentValues(before)))
}

// dropFields removes fields that another client has changed from the pending changes. The handled essence then doesn't include them, so the
// engine detects the other client's change as an update.
func (s *Session) dropFields(ctx context.Context, fields patch.MergePatch) {
	s.writing.reduced, s.writing.change = DropOverwrittenFields(ctx, s.writing.change, fields), nil
	for _, p := range s.Draft.patches {
		p.Patch = p.Patch.WithoutOverwritten(fields, s.Draft.Content())
	}
	s.writing.revert = s.writing.revert.WithoutOverwritten(fields, s.Draft.Content())
}

// DropOverwrittenFields returns a change without the fields that another client has changed while the outcome of an earlier request was
// unknown.
func DropOverwrittenFields(ctx context.Context, change *patch.Change, fields patch.MergePatch) *patch.Change {
	log.FromContext(ctx).Info("Dropped changes of handlers: another client has changed the same fields while the outcome of the write was unknown",
		"fields", guard.ShortenList(fields.Paths()))
	out := &patch.Change{Before: change.Before, Content: change.Content, HandlerPatch: change.HandlerPatch.WithoutOverwritten(fields, change.Content), ReadUntyped: change.ReadUntyped}
	out.ResumeFrom(change)
	return out
}

// releaseTries is how often the engine tries to write other changes together with removing the finalizer. After that, it only removes the
// finalizer.
const releaseTries = 5

// giveUpPatches counts a failed attempt to write the change. Once other changes have kept the finalizer from being removed releaseTries
// times, it drops them and returns true, so that the object can be deleted.
func (s *Session) giveUpPatches(ctx context.Context, writeErr error) bool {
	s.writing.failures++
	if s.writing.change.RemoveFinalizer == "" || s.writing.failures < releaseTries || len(s.writing.change.HandlerPatch)+len(s.writing.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(writeErr, "Failed to write the other changes repeatedly; only the finalizer is removed")
	s.writing.change.HandlerPatch, s.writing.change.FrameworkPatch, s.writing.baseline = nil, nil, nil
	return true
}
