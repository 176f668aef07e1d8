package engine

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

// remotePart is the framework's part of one object (records, baseline, pin) if it is stored outside of the object, see [progress.Remote]. The engine
// handles the object as if it contained this part.
type remotePart struct {
	// part is the stored part, as a JSON merge patch. If it is nil, nothing is stored, and the part of the object itself counts: it was stored before the
	// operator used a remote.
	part    patch.MergePatch
	version string
	// unknown is the data of a request whose outcome is unknown; nil if there is none.
	unknown []byte
	// pauses is the number of pauses before the part was loaded. Other operators may save during a pause.
	pauses int64
}

// sentChange is a change that the API server has accepted, while the framework's part has not been saved.
type sentChange struct {
	change  *patch.Change
	written client.Object // the response; nil if there was nothing to send
}

// loadRemote loads the framework's part of the object, unless this process knows it.
func (e *Engine) loadRemote(ctx context.Context, r *reconciliation) error {
	if e.Remote == nil {
		return nil
	}
	if known := r.known.Worker.Remote; known != nil && known.pauses == e.pauses.Load() {
		return nil
	}
	known := &remotePart{pauses: e.pauses.Load()}
	snapshot, err := e.readRemote(ctx, r)
	if err != nil {
		return err
	}
	if known.version = snapshot.Version; len(snapshot.Data) > 0 {
		if err := json.Unmarshal(snapshot.Data, &known.part); err != nil {
			return fmt.Errorf("the stored progress cannot be decoded; repair or delete it: %w", err)
		}
	}
	r.known.Worker.Remote = known
	return nil
}

func (e *Engine) readRemote(ctx context.Context, r *reconciliation) (progress.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	snapshot, err := e.Remote.Load(ctx, r.before)
	if err != nil {
		err = fmt.Errorf("loading the progress: %w", err)
	}
	return snapshot, err
}

// withRemotePart returns the JSON form of the object with the stored part instead of its own.
func (e *Engine) withRemotePart(content map[string]any, stored patch.MergePatch) map[string]any {
	return stored.Apply(e.withoutFrameworkPart(content))
}

// sendAndSave sends the changes of handlers, and then saves the framework's part. If the process ends in between, the handlers are called again. A repeated
// call with the same change continues with the second step.
func (e *Engine) sendAndSave(ctx context.Context, r *reconciliation, change *patch.Change) (client.Object, error) {
	released := change.RemoveFinalizer != "" && r.cause.Facts.Deleting
	if r.sent == nil || r.sent.change != change {
		part := change.FrameworkPatch
		change.FrameworkPatch = nil
		written, err := e.sendChange(ctx, r, change)
		change.FrameworkPatch = part
		if err != nil {
			return nil, err
		}
		r.sent = &sentChange{change: change, written: written}
	}
	var err error
	switch {
	case released:
		e.deleteRemote(ctx, r)
	case len(change.FrameworkPatch) > 0:
		err = e.saveRemote(ctx, r, e.frameworkPart(change.FrameworkPatch.Apply(r.content)))
	}
	if err != nil {
		return nil, err
	}
	written := r.sent.written
	r.sent = nil
	if released || len(change.FrameworkPatch) == 0 {
		return written, nil
	}
	if written == nil {
		written = r.withoutOverlaidPart()
	}
	return e.removeOwnPart(ctx, r, written), nil
}

// removeOwnPart removes the framework's part from an object whose part is saved elsewhere. It returns the object after the write. If the write fails, the
// next save repeats it.
func (e *Engine) removeOwnPart(ctx context.Context, r *reconciliation, obj client.Object) client.Object {
	content, err := patch.Content(obj)
	if err != nil {
		return obj
	}
	change := &patch.Change{Before: obj, Content: content, FrameworkPatch: patch.Diff(content, e.withoutFrameworkPart(content))}
	if len(change.FrameworkPatch) == 0 {
		return obj
	}
	written, err := e.sendChange(ctx, r, change)
	if err != nil || written == nil {
		log.FromContext(ctx).V(1).Info("Failed to remove the progress from the object; it is stored elsewhere now", "error", fmt.Sprint(err))
		return obj
	}
	return written
}

// saveRemote saves the framework's part. If an earlier request had no response, it first finds out whether that request was accepted.
func (e *Engine) saveRemote(ctx context.Context, r *reconciliation, part patch.MergePatch) error {
	if err := e.loadRemote(ctx, r); err != nil {
		return err
	}
	if guard := e.writeGuard(r); guard != nil {
		if err := guard(); err != nil {
			return err
		}
	}
	data, err := progress.EncodeJSON(part)
	if err != nil {
		return fmt.Errorf("encoding the progress: %w", err)
	}
	known := r.known.Worker.Remote
	if known.unknown != nil {
		snapshot, err := e.readRemote(ctx, r)
		if err != nil {
			return err
		}
		if bytes.Equal(snapshot.Data, known.unknown) {
			known.version = snapshot.Version
		}
		known.unknown = nil
	}
	version, err := e.Remote.Save(ctx, r.before, progress.Snapshot{Data: data, Version: known.version})
	if errors.Is(err, progress.ErrConflict) && known.version != "" {
		// The garbage collector may have deleted the document with its owner. It must not restart the delete handlers.
		if snapshot, loadErr := e.readRemote(ctx, r); loadErr == nil && snapshot.Version == "" {
			version, err = e.Remote.Save(ctx, r.before, progress.Snapshot{Data: data})
		}
	}
	switch {
	case errors.Is(err, progress.ErrConflict):
		return err
	case apierrors.IsForbidden(err) && r.cause.Facts.Deleting:
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

// deleteRemote deletes the stored part of an object that is deleted. It does not retry: the object does not exist any more.
func (e *Engine) deleteRemote(ctx context.Context, r *reconciliation) {
	if !r.hasRemotePart() {
		return
	}
	known := r.known.Worker.Remote
	if _, err := e.Remote.Save(ctx, r.before, progress.Snapshot{Version: known.version}); err != nil && !errors.Is(err, progress.ErrConflict) {
		log.FromContext(ctx).Info("Failed to delete the stored progress of the deleted object", "error", err.Error())
	}
	known.part, known.version, known.unknown = nil, "", nil
}

// hasRemotePart reports whether a part of the object is stored outside of it, as far as this process knows.
func (r *reconciliation) hasRemotePart() bool {
	known := r.known.Worker.Remote
	return known != nil && (known.version != "" || known.unknown != nil)
}

// dropConflicting gives up a write because another operator has saved the progress of the object. The object is handled again, with that progress.
func (e *Engine) dropConflicting(ctx context.Context, r *reconciliation) {
	log.FromContext(ctx).Info("Another operator has saved the progress of the object; dropping the progress of this reconcile")
	r.known.Worker.Remote, r.known.Worker.PendingWrite = nil, nil
}

// savedByOther reports whether another operator has saved the progress of the object since this process loaded or saved it.
func (e *Engine) savedByOther(ctx context.Context, r *reconciliation) (bool, error) {
	known := r.known.Worker.Remote
	if e.Remote == nil || known == nil {
		return false, nil
	}
	snapshot, err := e.readRemote(ctx, r)
	if err != nil {
		return false, err
	}
	if snapshot.Version != known.version && (known.unknown == nil || !bytes.Equal(snapshot.Data, known.unknown)) {
		r.known.Worker.Remote = nil
		return true, nil
	}
	known.pauses = e.pauses.Load()
	return false, nil
}
