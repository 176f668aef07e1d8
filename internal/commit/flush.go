package commit

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// ErrEnded means that the operator has ended and no longer writes.
var ErrEnded = errors.New("the operator has ended: nothing is written any more")

// Flush writes the changes in the status that a handler has made in its copy of the object so far. The session then continues with the object of the
// response.
func (s *Session) Flush(ctx context.Context, id string, copied client.Object) error {
	own, doc, err := s.FlushableChanges(ctx, &s.Draft, id, copied)
	if len(own) == 0 || err != nil {
		return err
	}
	if len(doc) == 0 { // the object has these values already
		s.dropSuperseded(own)
		s.isBehind = true // the copy of the handler has its own values
		return s.Apply(own)
	}
	if s.HasEnded() {
		return ErrEnded
	}
	if err := s.AwaitFenceUnchanged(ctx, s.Base(), &s.Suspensions, s.isUnchangedIn); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	if err := s.pinAhead(ctx, doc); err != nil {
		return err
	}
	if own, doc, err = s.FlushableChanges(ctx, &s.Draft, id, copied); err != nil {
		return err
	}
	change := &patch.Change{Before: s.Base(), Content: s.Content(), HandlerPatch: doc, Allow: s.Guard(&s.Suspensions)}
	written, err := s.Writer.Write(ctx, change)
	s.noteVersions(change, written)
	if err != nil || written == nil {
		return err
	}
	s.ReportDropped(ctx, change, id, doc)
	s.noteObservations(doc, s.Content())
	s.rebase(s.Detector.MergePart(s.Cause, s.Content(), doc))
	s.edited = true
	s.awaiter.SetAwaitedVersion(written.GetResourceVersion(), s.ConsistencyTimeout)
	if err := s.ContinueAfterFlush(&s.Draft, own, written); err != nil {
		return err
	}
	s.host.AfterPart(change.Content, AcceptedWrite{Changes: doc, Patches: []*HandlerPatch{{ID: id, Patch: doc}}, Stored: s.Content(), Version: written.GetResourceVersion()})
	return nil
}

// FlushableChanges returns the changes in the status since the attempt began or since the last flush. own are the changes relative to the state that the
// handler knows, and doc are the changes relative to the base of the draft.
func (c *Committer) FlushableChanges(ctx context.Context, d *Draft, id string, copied client.Object) (own, doc patch.MergePatch, err error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, d.Rebased(own).Unapplied(d.Content()), nil
}

// ContinueAfterFlush bases a draft on a state of the object that was written while a handler is running. The copy of the handler contains only its own
// changes.
func (c *Committer) ContinueAfterFlush(d *Draft, own patch.MergePatch, written client.Object) error {
	c.identify(written)
	if err := d.Apply(own); err != nil {
		return err
	}
	c.OnWritten(written)
	d.dropSuperseded(own)
	return d.ContinueFrom(written)
}
