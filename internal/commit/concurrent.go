package commit

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// ErrChangedConcurrently means that another client has changed the fields of a write, or the stored progress, while this process was suspended.
var ErrChangedConcurrently = errors.New("another client has changed the object while this process was suspended: the write is dropped")

// AwaitFence waits for the end of the hold after a suspension, and returns the number of suspensions until then.
func (c *Committer) AwaitFence(ctx context.Context) (suspensions int64, err error) {
	if c.Fence == nil {
		return 0, nil
	}
	return c.Fence.Wait(ctx)
}

// AwaitFenceUnchanged waits for the end of the hold before a write during an attempt of a handler. If the process was suspended after the object was read,
// AwaitFenceUnchanged reads the live object, and returns [ErrChangedConcurrently] if isExpected does not accept it.
func (c *Committer) AwaitFenceUnchanged(ctx context.Context, obj client.Object, suspensions *int64, isExpected func(content map[string]any) bool) error {
	now, err := c.AwaitFence(ctx)
	if err != nil || now == *suspensions {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	live, err := c.ReadLive(ctx, client.ObjectKeyFromObject(obj))
	switch {
	case err != nil:
		return err
	case live == nil || live.GetUID() != obj.GetUID():
		return patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return err
	}
	if !isExpected(content) {
		return ErrChangedConcurrently
	}
	*suspensions = now
	return nil
}

// dropFields removes fields that another client has changed from the pending changes. The session then computes the handled essence without these fields, so
// that the engine detects the change of the other client as an update.
func (s *Session) dropFields(ctx context.Context, fields patch.MergePatch) {
	s.reduced, s.change = DropOverwrittenFields(ctx, s.change, fields), nil
	for _, p := range s.patches {
		p.Patch = p.Patch.WithoutOverwritten(fields, s.Content())
	}
	s.revert = s.revert.WithoutOverwritten(fields, s.Content())
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
	s.failures++
	if s.change.RemoveFinalizer == "" || s.failures < releaseTries || len(s.change.HandlerPatch)+len(s.change.FrameworkPatch) == 0 {
		return false
	}
	log.FromContext(ctx).Error(writeErr, "Failed to write the other changes repeatedly; only the finalizer is removed")
	s.change.HandlerPatch, s.change.FrameworkPatch, s.baseline = nil, nil, nil
	return true
}

// OvertakenBy returns the live object if another client has made the pending write obsolete during a pause: the client has stored other progress, or changed
// the same fields. Otherwise, OvertakenBy returns nil, and the session can be written. OvertakenBy reads the object from the API server, because the cache may
// lack the last write of the other client. suspensions is the number of suspensions before the read.
func (s *Session) OvertakenBy(ctx context.Context, suspensions int64) (client.Object, error) {
	if s.Pauses == s.Committer.Pauses() {
		return nil, nil
	}
	live, err := s.ReadLive(ctx, client.ObjectKeyFromObject(s.Base()))
	if err != nil || live == nil || live.GetUID() != s.Base().GetUID() {
		return nil, err // if the object is deleted, the next write returns patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return nil, err
	}
	saved, err := s.savedByOther(ctx)
	if err != nil || !saved && s.isUnchangedIn(content) {
		s.Pauses, s.Suspensions = s.Committer.Pauses(), suspensions
		return nil, err
	}
	log.FromContext(ctx).Info("Dropped the pending write from before the pause: another client has changed the object")
	for _, p := range s.patches {
		if p.Repeat != nil {
			p.Repeat()
		}
	}
	return live, nil
}

// isUnchangedIn reports whether other clients have left a state of the object unchanged since the handlers were called. It compares the framework's part, and
// accepts the old and the new values of the fields that the handlers have changed.
func (s *Session) isUnchangedIn(content map[string]any) bool {
	if !s.SameFrameworkPart(s.Stored().Content, content) {
		return false
	}
	var changes patch.MergePatch
	for _, p := range s.patches {
		changes = patch.Merge(changes, p.Patch)
	}
	return IsUntouched(changes, s.Content(), content)
}

// IsUntouched reports whether each field of a patch has either its earlier value or the value of the patch.
func IsUntouched(change patch.MergePatch, before, content map[string]any) bool {
	left := change.Unapplied(content)
	return diff.Equal(map[string]any(left.CurrentValues(content)), map[string]any(left.CurrentValues(before)))
}

// SameFrameworkPart reports whether two states of an object have the same records, baseline and pin.
func (c *Committer) SameFrameworkPart(one, other map[string]any) bool {
	for _, item := range diff.Of(c.frameworkPart(one), c.frameworkPart(other)) {
		if !isEmpty(item.Old) || !isEmpty(item.New) {
			return false
		}
	}
	return true
}

// frameworkPart returns the part of an object that the framework has written: records, baseline and pin.
func (c *Committer) frameworkPart(content map[string]any) map[string]any {
	return patch.Diff(c.withoutFrameworkPart(content), content)
}

func (c *Committer) withoutFrameworkPart(content map[string]any) map[string]any {
	without := runtime.DeepCopyJSON(content)
	c.clear(without)
	return without
}

// isEmpty reports whether a value contains nothing but empty maps. Removing the last record may leave empty maps.
func isEmpty(value any) bool {
	fields, isMap := value.(map[string]any)
	for _, field := range fields {
		if !isEmpty(field) {
			return false
		}
	}
	return isMap || value == nil
}
