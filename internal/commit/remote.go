package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// RemotePart is the framework's part of one object (records, baseline, pin) if it is stored outside of the object, see [progress.Remote]. The engine
// handles the object as if it contained this part.
type RemotePart struct {
	// part is the stored part, as a JSON merge patch. If it is nil, nothing is stored, and the part of the object itself counts: it was stored before the
	// operator used a remote.
	part    patch.MergePatch
	version string
	// unknown is the data of a request whose outcome is unknown; nil if there is none.
	unknown []byte
	// pauses is the number of pauses before the part was loaded or compared last. Other operators may save the part during a pause.
	pauses int32
}

// sentChange is a change that the API server has accepted, while the framework's part has not been saved.
type sentChange struct {
	change  *patch.Change
	written client.Object // the response; nil if there was nothing to send
}

// loadRemote loads the framework's part of the object, unless this process has loaded or saved it since the last pause.
func (s *Session) loadRemote(ctx context.Context) error {
	if known := s.Memory.Remote; known != nil && known.pauses == s.Committer.Pauses() {
		return nil
	}
	known := &RemotePart{pauses: s.Committer.Pauses()}
	snapshot, err := s.readRemote(ctx)
	if err != nil {
		return err
	}
	if known.version = snapshot.Version; len(snapshot.Data) > 0 {
		if err := json.Unmarshal(snapshot.Data, &known.part); err != nil {
			return fmt.Errorf("the stored progress cannot be decoded; repair or delete it: %w", err)
		}
		// Other users may be able to write the stored progress. They must not change other fields of the object that handlers receive.
		known.part = s.frameworkPart(known.part)
	}
	s.Memory.Remote = known
	return nil
}

func (s *Session) readRemote(ctx context.Context) (progress.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	snapshot, err := s.Remote.Load(ctx, s.Base())
	if err != nil {
		err = fmt.Errorf("loading the progress: %w", err)
	}
	return snapshot, err
}

// sendAndSave sends the changes of handlers, and then saves the framework's part. If the process ends in between, the handlers are called again. A repeated
// call with the same change continues with the second step.
func (s *Session) sendAndSave(ctx context.Context, change *patch.Change) (client.Object, error) {
	released := change.RemoveFinalizer != "" && s.Cause.Facts.Deleting
	if s.sent == nil || s.sent.change != change {
		part := change.FrameworkPatch
		change.FrameworkPatch = nil
		written, err := s.sendChange(ctx, change)
		change.FrameworkPatch = part
		if err != nil {
			return nil, err
		}
		s.sent = &sentChange{change: change, written: written}
	}
	var err error
	switch {
	case released:
		s.DeleteRemote(ctx)
	case len(change.FrameworkPatch) > 0:
		err = s.saveRemote(ctx, s.frameworkPart(change.FrameworkPatch.Apply(s.Content())))
	}
	if err != nil {
		return nil, err
	}
	written := s.sent.written
	s.sent = nil
	if released || len(change.FrameworkPatch) == 0 {
		return written, nil
	}
	if written == nil {
		written = s.Stored().Object
	}
	return s.removeOwnPart(ctx, written), nil
}

// removeOwnPart removes the framework's part from an object whose part is saved elsewhere. It returns the object after the write. If the write fails, the
// next save removes the part again.
func (s *Session) removeOwnPart(ctx context.Context, obj client.Object) client.Object {
	content, err := patch.Content(obj)
	if err != nil {
		return obj
	}
	change := &patch.Change{Before: obj, Content: content, FrameworkPatch: removeFields(patch.Diff(content, s.withoutFrameworkPart(content)), content)}
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

// saveRemote saves the framework's part. If the outcome of an earlier request is unknown, saveRemote first reads whether that request was accepted.
func (s *Session) saveRemote(ctx context.Context, part patch.MergePatch) error {
	if err := s.loadRemote(ctx); err != nil {
		return err
	}
	if guard := s.Guard(&s.Suspensions); guard != nil {
		if err := guard(); err != nil {
			return err
		}
	}
	data, err := progress.EncodeJSON(part)
	if err != nil {
		return fmt.Errorf("encoding the progress: %w", err)
	}
	known := s.Memory.Remote
	if known.unknown != nil {
		snapshot, err := s.readRemote(ctx)
		if err != nil {
			return err
		}
		if bytes.Equal(snapshot.Data, known.unknown) {
			known.version = snapshot.Version
		}
		known.unknown = nil
	}
	version, err := s.Remote.Save(ctx, s.Base(), progress.Snapshot{Data: data, Version: known.version})
	if errors.Is(err, progress.ErrConflict) && known.version != "" {
		// The garbage collector may have deleted the document together with its owner. This must not restart the delete handlers.
		if snapshot, loadErr := s.readRemote(ctx); loadErr == nil && snapshot.Version == "" {
			version, err = s.Remote.Save(ctx, s.Base(), progress.Snapshot{Data: data})
		}
	}
	switch {
	case errors.Is(err, progress.ErrConflict):
		return err
	case apierrors.IsForbidden(err) && s.Cause.Facts.Deleting:
		// A namespace that is being deleted accepts no new objects. The deletion does not wait for the document.
		log.FromContext(ctx).Info("Cannot save the progress of the deleted object; it is kept in memory", "error", err.Error())
		known.part, known.version = part, ""
		return nil
	case err != nil:
		known.unknown = data
		return fmt.Errorf("saving the progress: %w", err)
	}
	known.part, known.version = part, version
	return nil
}

// DeleteRemote deletes the stored part of an object that no longer exists. It logs errors and does not retry, because no later reconcile could repeat it.
func (s *Session) DeleteRemote(ctx context.Context) {
	if !s.HasRemotePart() {
		return
	}
	known := s.Memory.Remote
	if _, err := s.Remote.Save(ctx, s.Base(), progress.Snapshot{Version: known.version}); err != nil && !errors.Is(err, progress.ErrConflict) {
		log.FromContext(ctx).Info("Failed to delete the stored progress of the deleted object", "error", err.Error())
	}
	known.part, known.version, known.unknown = nil, "", nil
}

// HasRemotePart reports whether the framework's part is stored outside of the object, as far as this process knows.
func (s *Session) HasRemotePart() bool {
	known := s.Memory.Remote
	return known != nil && (known.version != "" || known.unknown != nil)
}

// dropConflicting gives up a write because another operator has saved the progress of the object. The next reconcile loads that progress.
func (s *Session) dropConflicting(ctx context.Context) {
	log.FromContext(ctx).Info("Another operator has saved the progress of the object; dropping the progress of this reconcile")
	s.Memory.Remote, s.Memory.Pending = nil, nil
}

// savedByOther reports whether another operator has saved the progress of the object since this process loaded or saved it.
func (s *Session) savedByOther(ctx context.Context) (bool, error) {
	known := s.Memory.Remote
	if s.Remote == nil || known == nil {
		return false, nil
	}
	snapshot, err := s.readRemote(ctx)
	if err != nil {
		return false, err
	}
	if snapshot.Version != known.version && (known.unknown == nil || !bytes.Equal(snapshot.Data, known.unknown)) {
		s.Memory.Remote = nil
		return true, nil
	}
	known.pauses = s.Committer.Pauses()
	return false, nil
}
