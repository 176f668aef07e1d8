package commit

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Send sends a change that contains nothing from handlers, such as adding the finalizer.
func (s *Session) Send(ctx context.Context, change *patch.Change) error {
	s.result = Result{}
	_, err := s.send(ctx, change)
	return err
}

// send sends a change in one request, or in two if the kind has a status subresource. It ignores that the context is cancelled, because an
// operator that is stopping must still write its outcomes.
func (s *Session) send(ctx context.Context, change *patch.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), WriteTimeout)
	defer cancel()
	if s.committer.Remote == nil {
		return s.sendChange(ctx, change)
	}
	if s.conflicts { // the session is based on progress that another operator has replaced
		return nil, progress.ErrConflict
	}
	written, err := s.sendAndSave(ctx, change)
	if s.conflicts = errors.Is(err, progress.ErrConflict); s.conflicts {
		s.dropConflicting(ctx)
	}
	return written, err
}

// sendAndSave sends the handlers' changes, and then saves the framework's part. If the process exits in between, the handlers are called
// again. Calling it again with the same change continues with the second step.
func (s *Session) sendAndSave(ctx context.Context, change *patch.Change) (client.Object, error) {
	released := change.RemoveFinalizer != "" && s.Cause.Facts.Deleting
	if s.writing.sent != change {
		part := change.FrameworkPatch
		change.FrameworkPatch = nil
		written, err := s.sendChange(ctx, change)
		change.FrameworkPatch = part
		if err != nil {
			return nil, err
		}
		s.writing.sent, s.writing.response = change, written
	}
	var err error
	switch {
	case released:
		s.DeleteRemote(ctx)
	case len(change.FrameworkPatch) > 0:
		err = s.saveRemote(ctx, s.builder.frameworkPart(change.FrameworkPatch.Apply(s.Draft.Content())))
	}
	if err != nil {
		return nil, err
	}
	written := s.writing.response
	s.writing.sent, s.writing.response = nil, nil
	if released || len(change.FrameworkPatch) == 0 {
		return written, nil
	}
	if written == nil {
		written = s.Draft.Stored().Object
	}
	return s.removeOwnPart(ctx, written), nil
}

// removeOwnPart removes the framework's part from an object once it is saved elsewhere, and returns the object after the write. If the
// write fails, the next save tries again.
func (s *Session) removeOwnPart(ctx context.Context, obj client.Object) client.Object {
	content, err := patch.Content(obj)
	if err != nil {
		return obj
	}
	change := &patch.Change{Before: obj, Content: content, FrameworkPatch: removeFields(patch.Diff(content, s.builder.withoutFrameworkPart(content)), content)}
	if len(change.FrameworkPatch) == 0 {
		return obj
	}
	written, err := s.sendChange(ctx, change)
	if err != nil || written == nil {
		log.FromContext(ctx).V(1).Info("Failed to remove the progress from the object; it is stored elsewhere now", "error", fmt.Sprint(err))
		return obj
	}
	return written
}

// sendChange sends a change to the API server. It records the versions that the change has created, and the one that the cache must show.
func (s *Session) sendChange(ctx context.Context, change *patch.Change) (client.Object, error) {
	written, err := s.committer.Write(ctx, change, &s.Suspensions)
	s.noteVersions(change, written)
	if err != nil || written == nil {
		return nil, err
	}
	s.awaitVersion(written)
	metrics.StoredBytes.WithLabelValues(s.committer.Name).Observe(float64(AnnotationsSize(written)))
	s.memory.FinalizerRemoved = s.memory.FinalizerRemoved || change.RemoveFinalizer != "" && s.Cause.Facts.Deleting
	return written, nil
}

// Write sends a change to the API server. Everything that writes objects uses it. suspensions is how often the process was suspended before
// the object was read. If there was nothing to send, Write returns nil.
func (c *Committer) Write(ctx context.Context, change *patch.Change, suspensions *int64) (client.Object, error) {
	change.Allow = c.Guard(suspensions)
	written, err := c.Writer.Write(ctx, change)
	if err != nil || written == nil {
		return nil, err
	}
	c.noteWritten(written)
	return written, nil
}

// noteWritten records the object of a response.
func (c *Committer) noteWritten(written client.Object) {
	c.identify(written)
	c.OnWritten(written)
}

// Guard returns the check that runs before each request, or nil without a fence. It fails if the operator has stopped, if the process was
// suspended after the change was computed, and during the hold after a suspension. After the hold, the changes are compared with the live
// object, as after a pause.
func (c *Committer) Guard(suspensions *int64) func() error {
	if c.Fence == nil {
		return nil
	}
	return func() error {
		if c.HasEnded() {
			return ErrEnded
		}
		if c.Fence.IsActive() || c.Fence.SuspensionCount() != *suspensions {
			return suspension.ErrDetected
		}
		return nil
	}
}

// noteVersions reports the resource versions that a change has created. written is nil if the change was not written completely.
func (s *Session) noteVersions(change *patch.Change, written client.Object) {
	versions := change.WrittenVersions
	change.WrittenVersions = nil
	if s.committer.OnVersions == nil || len(versions) == 0 {
		return
	}
	edited := written != nil && s.editedByOthers(change, written)
	own, before := make([]WrittenVersion, len(versions)), change.Before.GetResourceVersion()
	for i, version := range versions {
		if own[i].Version = version; edited { // we don't know before which request
			own[i].EditedAfter = before
		}
		before = version
	}
	s.committer.OnVersions(s.Draft.Base().GetUID(), own)
}

// editedByOthers reports whether the object includes other clients' changes after a write.
func (s *Session) editedByOthers(change *patch.Change, written client.Object) bool {
	after, err := s.Draft.Stored().ContentOf(written)
	if err != nil {
		return false
	}
	before := change.Content
	if change.Before == s.Draft.Base() { // which may contain progress that is not stored on the object
		before = s.Draft.Stored().Content
	}
	return change.EditedByOthers(before, after)
}

// awaitVersion records that the cache must show the object of a response.
func (s *Session) awaitVersion(written client.Object) {
	version := written.GetResourceVersion()
	if version == s.Draft.Base().GetResourceVersion() {
		version = "" // the object hasn't changed, so there won't be a watch event
	}
	s.result.Awaited = append(s.result.Awaited, version)
}

// resumeFrom bases the session on the response to the first request of a rejected change, if that request was accepted.
func (s *Session) resumeFrom(change *patch.Change) error {
	obj := change.FirstResponse()
	if obj == nil {
		return nil
	}
	s.committer.noteWritten(obj)
	s.awaitVersion(obj)
	return s.Draft.SetBase(obj)
}
