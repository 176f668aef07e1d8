package commit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// savedByOther reports whether another operator has saved the object's progress since this process loaded or saved it.
func (s *Session) savedByOther(ctx context.Context) (bool, error) {
	known := s.memory.Remote
	if s.committer.Remote == nil || known == nil {
		return false, nil
	}
	snapshot, err := s.readRemote(ctx)
	if err != nil {
		return false, err
	}
	if snapshot.Version != known.version && (known.unknown == nil || !bytes.Equal(snapshot.Data, known.unknown)) {
		s.memory.Remote = nil
		return true, nil
	}
	known.pauses = s.committer.Pauses()
	return false, nil
}

// saveRemote saves the framework's part. If the outcome of an earlier request is unknown, it first reads whether that request was accepted.
func (s *Session) saveRemote(ctx context.Context, part patch.MergePatch) error {
	if err := s.loadRemote(ctx); err != nil {
		return err
	}
	if guard := s.committer.Guard(&s.Suspensions); guard != nil {
		if err := guard(); err != nil {
			return err
		}
	}
	data, err := progress.EncodeJSON(part)
	if err != nil {
		return fmt.Errorf("encoding the progress: %w", err)
	}
	known := s.memory.Remote
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
	version, err := s.committer.Remote.Save(ctx, s.Draft.Base(), progress.Snapshot{Data: data, Version: known.version})
	if errors.Is(err, progress.ErrConflict) && known.version != "" {
		// The garbage collector may have deleted the document along with its owner. The delete handlers must not start over because of
		// that.
		if snapshot, loadErr := s.readRemote(ctx); loadErr == nil && snapshot.Version == "" {
			version, err = s.committer.Remote.Save(ctx, s.Draft.Base(), progress.Snapshot{Data: data})
		}
	}
	switch {
	case errors.Is(err, progress.ErrConflict):
		return err
	case apierrors.IsForbidden(err) && s.Cause.Facts.Deleting:
		// A namespace that is being deleted accepts no new objects, so the deletion doesn't wait for the document.
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

// DeleteRemote deletes the stored part of an object that no longer exists. It only logs errors, because no later reconcile could retry it.
func (s *Session) DeleteRemote(ctx context.Context) {
	if !s.HasRemotePart() {
		return
	}
	known := s.memory.Remote
	if _, err := s.committer.Remote.Save(ctx, s.Draft.Base(), progress.Snapshot{Version: known.version}); err != nil && !errors.Is(err, progress.ErrConflict) {
		log.FromContext(ctx).Info("Failed to delete the stored progress of the deleted object", "error", err.Error())
	}
	known.part, known.version, known.unknown = nil, "", nil
}

// HasRemotePart reports whether the framework's part is stored outside of the object, as far as this process knows.
func (s *Session) HasRemotePart() bool {
	known := s.memory.Remote
	return known != nil && (known.version != "" || known.unknown != nil)
}

// dropConflicting gives up a write because another operator has saved the object's progress. The next reconcile loads that.
func (s *Session) dropConflicting(ctx context.Context) {
	log.FromContext(ctx).Info("Another operator has saved the progress of the object; dropping the progress of this reconcile")
	s.memory.Remote, s.writing.pending = nil, false
}

// loadRemote loads the framework's part, unless this process has loaded or saved it since the last pause.
func (s *Session) loadRemote(ctx context.Context) error {
	if known := s.memory.Remote; known != nil && known.pauses == s.committer.Pauses() {
		return nil
	}
	known := &RemotePart{pauses: s.committer.Pauses()}
	snapshot, err := s.readRemote(ctx)
	if err != nil {
		return err
	}
	if known.version = snapshot.Version; len(snapshot.Data) > 0 {
		if err := json.Unmarshal(snapshot.Data, &known.part); err != nil {
			return fmt.Errorf("the stored progress cannot be decoded; repair or delete it: %w", err)
		}
		// Others may be able to write the stored progress, but must not use it to change other fields of the object that handlers receive.
		known.part = s.builder.frameworkPart(known.part)
	}
	s.memory.Remote = known
	return nil
}

func (s *Session) readRemote(ctx context.Context) (progress.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	snapshot, err := s.committer.Remote.Load(ctx, s.Draft.Base())
	if err != nil {
		err = fmt.Errorf("loading the progress: %w", err)
	}
	return snapshot, err
}
