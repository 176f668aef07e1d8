package commit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// WriteTimeout limits one write. It is the only limit for the writes of an operator that is stopping.
const WriteTimeout = 10 * time.Second

// Committer writes the changes of the objects of one kind. It is safe for concurrent use.
type Committer struct {
	*Builder
	Writer *patch.Writer
	// Name is the name of the controller, a label of the metrics.
	Name string
	// Remote stores the framework's part of the objects outside of them. If Remote is nil, the objects contain the part.
	Remote progress.Remote
	// Fence detects suspensions of the process. It is optional.
	Fence *fencing.Fence
	// ConsistencyTimeout is the time in which the cache must show a write.
	ConsistencyTimeout time.Duration
	// ReadCached and ReadLive read an object from the cache and from the API server. They return nil for an object that does not exist.
	ReadCached, ReadLive func(ctx context.Context, key client.ObjectKey) (client.Object, error)
	// Pauses returns the number of pauses so far.
	Pauses func() int32
	// HasEnded reports whether the operator has ended. Sessions then write nothing.
	HasEnded func() bool
	// OnWritten receives the responses to all writes.
	OnWritten func(client.Object)
	// OnVersions receives the resource versions that writes to an object have created. If it is nil, nobody needs them.
	OnVersions func(uid types.UID, versions []WrittenVersion)
	// OnBaseline receives the baselines that are stored on objects.
	OnBaseline func(uid types.UID, stored []byte)
	// Warn posts an Event about an object.
	Warn func(obj client.Object, reason, note string)

	// Observed are the places where the operator writes the observed generation.
	Observed Observed

	loggedDrops dropLog
}

// Memory contains the data that the process keeps about the writes to one object. Only the worker of the object uses it.
type Memory struct {
	// Pending is a session whose write has failed. The write is retried before the next decision.
	Pending *Session
	// Overlay is the framework's part of the object that the API server has rejected; nil if it is stored.
	Overlay *Overlay
	// Remote is the framework's part of the object that is stored outside of it; nil if it is not known.
	Remote *RemotePart
	// Baselines describes the baselines that this process has stored; nil until it has stored one.
	Baselines *cause.BaselineHistory
	// PausesAtBaseline is the number of pauses before the baseline was stored. Other operators may handle the object during a pause.
	PausesAtBaseline int32
	// FinalizerRemoved is true after this process has removed its finalizer from an object that is being deleted.
	FinalizerRemoved bool
	// FoundDeleted is true after a write has failed because the object no longer exists.
	FoundDeleted bool
	// LoggedTooLarge is true after this process has logged that the last-handled configuration is too large to be stored.
	LoggedTooLarge bool
}

// Awaiter records the write that the cache must show.
type Awaiter interface {
	SetAwaitedVersion(version string, timeout time.Duration)
}

// Host is the reconcile to which a session belongs. The session calls its methods.
type Host interface {
	// ReportConditions adds the conditions that report handlers to the draft.
	ReportConditions(ctx context.Context)
	// AfterWrite is called when the API server has accepted all changes of handlers. The draft still has its state from before the write.
	AfterWrite(ctx context.Context, accepted AcceptedWrite)
	// AfterPart is called when the API server has accepted a part of the changes: changes that a running handler has flushed, or the changes outside of the
	// status. before is the JSON form of the object before the write.
	AfterPart(before map[string]any, accepted AcceptedWrite)
	// Observes reports whether the status, with the pending changes, says that the operator has observed one of these generations.
	Observes(ctx context.Context, any patch.Generations) bool
	// Deleted is called when the object no longer exists.
	Deleted()
}

// AcceptedWrite is a write that the API server has accepted.
type AcceptedWrite struct {
	// Changes are the changes of handlers, and Patches are the same changes by handler.
	Changes patch.MergePatch
	Patches []*HandlerPatch
	// Stored is the JSON form of the object after the write. It is nil if nothing was sent.
	Stored map[string]any
	// Version is the resource version after the write.
	Version string
}

// NewSession returns a session without an object. [Draft.SetBase] sets its object.
func (c *Committer) NewSession(memory *Memory, awaiter Awaiter, host Host) Session {
	overlay := func(stored patch.Converted) (map[string]any, error) { return c.overlaid(memory, stored) }
	return Session{Committer: c, Draft: Draft{newObject: c.Writer.NewObject, overlay: overlay}, Memory: memory, awaiter: awaiter, host: host}
}

// SuspensionCount returns the number of suspensions of the process.
func (c *Committer) SuspensionCount() int64 {
	if c.Fence == nil {
		return 0
	}
	return c.Fence.SuspensionCount()
}

// Guard returns the check that runs before each request; nil without a fence. The check returns an error if the process was suspended after the change was
// computed, or during the hold after a suspension. After the hold, the changes are compared with the live object, as after a pause.
func (c *Committer) Guard(suspensions *int64) func() error {
	if c.Fence == nil {
		return nil
	}
	return func() error {
		if c.HasEnded() {
			return ErrEnded
		}
		if c.Fence.IsActive() || c.Fence.SuspensionCount() != *suspensions {
			return fencing.ErrSuspended
		}
		return nil
	}
}

func now() time.Time { return time.Now() }

// Session writes the changes of one reconcile, in one write or in several. Only the worker of the object uses it.
//
// Each write updates the draft and the cause: the session continues with the object of the response. Rejected changes are
// isolated and reverted within [Session.Write].
type Session struct {
	*Committer
	Draft
	Memory  *Memory
	Cause   cause.Cause
	Records *progress.State

	// Gone is true if the object no longer exists. It is then never written.
	Gone bool
	// Leaving is true if the object no longer matches the selectors of the cache. The next write is then the last write.
	Leaving bool
	// Unmatched is true if no cause handler matches the object.
	Unmatched bool
	// Pauses is the number of pauses of the operator before the object was read, and Suspensions is the number of suspensions of the process.
	Pauses      int32
	Suspensions int64

	// Aborted is true if no other handler is called in this reconcile, because of a deletion, a pause or a rejection.
	Aborted bool
	// ReportRejected is true if the API server has rejected the conditions that report handlers.
	ReportRejected bool

	awaiter Awaiter
	host    Host
	calls   callState
	edited  bool // changes of handlers were written

	change   *patch.Change    // the change that is being written; nil if there is none
	reduced  *patch.Change    // an earlier form of the change, with fields that another client has changed
	failures int              // the number of failed attempts to write the change
	baseline []byte           // the new baseline that is being written; nil if there is none
	handled  map[string]any   // the essence that is handled after the write
	isolated *isolation       // the patches are being written one by one; nil if they are not
	revert   patch.MergePatch // reverts the written parts of rejected patches
	spec     *patch.Change    // the change, if it is only the part outside of the status

	observations []patch.Observation // in the changes that this session has written
	raised       patch.Generations   // the generations that only own writes have ended

	retriesOverlay bool        // the overlay must be sent again, even if nothing is added to it
	sendsOverlay   bool        // the overlay is part of the change that is being written
	sent           *sentChange // a change whose framework's part has not been saved; nil if there is none
	conflicts      bool        // another operator has saved the progress in the meantime
}

// callState is the state of the calls of cause handlers.
type callState int

const (
	running    callState = iota // other handlers may be called
	waiting                     // all calls have been made, and daemons or timers of the deleted object have not stopped
	callsEnded                  // all calls have been made: the next write is the last write of this reconcile
)

// EndCalls is called when all calls of cause handlers have been made. waits is true if the end of the cause must wait for daemons and timers.
func (s *Session) EndCalls(waits bool) {
	if s.calls = callsEnded; waits {
		s.calls = waiting
	}
}

// IsFinished reports whether the cause is over: all handlers have finished, and the daemons and timers of a deleted object have stopped.
func (s *Session) IsFinished() bool {
	return s.calls == callsEnded && s.Cause.Reason.HasHandlers() && s.Records.Done()
}

// HasLeftovers reports whether an object without a cause has data that the next write must remove or store.
func (s *Session) HasLeftovers() bool {
	return s.Cause.Reason == cause.Noop && (s.Cause.StalePin || s.Cause.OutdatedBaseline || s.Leaving || s.retriesOverlay || s.Records.HasStale(now()))
}

// IsAtRest reports whether neither handlers nor the framework have changes to write, apart from records.
func (s *Session) IsAtRest() bool {
	_, delayed := s.Records.StaleAfter(now())
	return !s.HasChanges() && !s.Cause.OutdatedBaseline && !s.Cause.StalePin && !s.retriesOverlay && !delayed && !s.Records.HasStale(now())
}

// Write sends all changes of handlers and of the framework since the last write. It sends nothing if the object already contains them. It returns the object
// after the write; nil if the object no longer exists. If a request fails, Write sets [Memory.Pending] to the session, and the next reconcile must begin with
// it. After [progress.ErrConflict], it sets Pending to nil.
func (s *Session) Write(ctx context.Context) (client.Object, error) {
	wasOverlaid := s.Memory.Overlay != nil
	for {
		written, again, err := s.tryWrite(ctx)
		switch {
		case errors.Is(err, patch.ErrGone):
			s.Memory.Pending, s.Memory.FoundDeleted, s.Aborted = nil, true, true
			s.host.Deleted()
			return nil, nil
		case err != nil:
			return nil, err
		case again:
			continue
		case written == nil || s.Memory.FinalizerRemoved || wasOverlaid == (s.Memory.Overlay != nil):
			return written, nil
		}
		wasOverlaid = !wasOverlaid
		if s.host.ReportConditions(ctx); !s.HasChanges() { // the condition that reports the overlay
			return written, nil
		}
	}
}

// tryWrite makes one attempt to write the change. It returns true if the change must be written again, in a different form.
func (s *Session) tryWrite(ctx context.Context) (written client.Object, again bool, err error) {
	if s.isolated != nil {
		if err := s.continueIsolation(ctx); err != nil {
			return nil, false, err
		}
	}
	if s.change == nil {
		if err := s.prepare(ctx); err != nil {
			return nil, false, err
		}
	}
	written, err = s.Send(ctx, s.change)
	concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
	switch {
	case err == nil && s.change == s.spec:
		return nil, true, s.acceptSpec(ctx, written)
	case err == nil:
		written, err = s.accept(ctx, written)
		return written, false, err
	case isConcurrent:
		s.dropFields(ctx, concurrent.Fields)
		return nil, true, nil
	case IsRejected(err) && len(s.revert) > 0:
		return nil, true, s.abandonRevert(ctx, err)
	case IsRejected(err) && s.HasChanges():
		return nil, true, s.isolateRejected(ctx, err)
	case errors.Is(err, patch.ErrGone), errors.Is(err, progress.ErrConflict):
		return nil, false, err
	case IsRejected(err) && len(s.change.FrameworkPatch) > 0 && s.Remote == nil:
		// Handlers and deletions do not wait until the API server accepts the framework's part.
		if err := s.keepInMemory(ctx, s.change, err); err != nil || s.change.RemoveFinalizer != "" {
			return nil, true, err
		}
		written, err = s.accept(ctx, nil)
		return written, false, err
	case s.giveUpPatches(ctx, err):
		return nil, true, nil
	}
	return nil, false, s.failed(err)
}

// failed keeps the session for the next reconcile.
func (s *Session) failed(err error) error {
	s.Memory.Pending = s
	if s.baseline != nil { // the API server may have stored it
		s.Memory.Baselines = nil
	}
	return fmt.Errorf("writing the object: %w", err)
}

// prepare builds the change that contains all changes since the last write.
func (s *Session) prepare(ctx context.Context) error {
	tx, err := s.build(ctx)
	if err != nil {
		return err
	}
	if tx, err = s.specFirst(ctx, tx); err != nil {
		return err
	}
	if before := s.Base(); s.spec == nil {
		if err := s.pinAhead(ctx, tx.Change.HandlerPatch); err != nil {
			if errors.Is(err, progress.ErrConflict) {
				return fmt.Errorf("writing the object: %w", err)
			}
			return s.failed(err)
		}
		if s.Base() != before {
			if tx, err = s.build(ctx); err != nil {
				return err
			}
		}
	}
	if s.sendsOverlay = false; s.spec == nil || s.Memory.Overlay == nil { // the overlay is written with the records
		if tx.Change.FrameworkPatch, err = s.complete(ctx, tx.Change.FrameworkPatch); err != nil {
			return err
		}
	}
	if s.reduced != nil {
		tx.Change.ResumeFrom(s.reduced)
		s.reduced = nil
	}
	s.change, s.handled, s.baseline = tx.Change, tx.Handled, tx.NewBaseline
	return nil
}

// build builds the transaction for all changes since the last write.
func (s *Session) build(ctx context.Context) (Transaction, error) {
	if s.base.Object == s.stored.Object { // the overlay may be new
		if err := s.applyOverlay(); err != nil {
			return Transaction{}, err
		}
	}
	s.host.ReportConditions(ctx)
	tx, err := s.Build(s.input())
	if err != nil {
		return tx, err
	}
	tx.Change.Expected = s.Current()
	s.warnBaselineTooLarge(ctx, tx)
	return tx, nil
}

func (s *Session) input() Input {
	return Input{
		Object: s.Base(), Content: s.Content(), Cause: &s.Cause, Progress: s.Records, Finished: s.IsFinished(), Unmatched: s.Unmatched,
		Leaving: s.Leaving, Edited: s.edited, Patches: s.Patches(), Revert: s.revert, Now: now(),
	}
}

// accept continues the session with the object that the API server has stored.
func (s *Session) accept(ctx context.Context, written client.Object) (client.Object, error) {
	change, handlerPatch := s.change, s.change.HandlerPatch
	for _, p := range s.patches {
		s.ReportDropped(ctx, change, p.ID, p.Patch)
		s.noteObservations(p.Patch, s.Content())
	}
	accepted := AcceptedWrite{Changes: handlerPatch, Patches: s.patches, Version: s.Base().GetResourceVersion()}
	if written != nil {
		var err error
		if accepted.Stored, err = change.ContentOf(written); err != nil {
			return nil, err
		}
		accepted.Version = written.GetResourceVersion()
	}
	if s.sendsOverlay {
		s.dropOverlay(ctx)
	}
	s.Memory.Pending, s.change = nil, nil
	s.edited = s.edited || len(handlerPatch) > 0
	s.host.AfterWrite(ctx, accepted)
	s.rebase(s.Detector.CauseAfterWrite(s.Cause, s.Content(), s.handled, handlerPatch))
	s.noteBaseline(s.baseline)
	s.baseline, s.patches, s.revert = nil, nil, nil
	if written == nil {
		return s.Base(), s.SetBase(s.Base())
	}
	if err := s.setStored(patch.Converted{Object: written, Content: accepted.Stored}); err != nil {
		return nil, err
	}
	after, isAltered := s.causeOfStored(ctx, s.Cause, change)
	s.rebase(after)
	if isAltered {
		if err := s.storeCorrection(ctx); err != nil {
			return nil, err
		}
	}
	return written, nil
}

// rebase continues the session with the cause after a write.
func (s *Session) rebase(after cause.Cause) { s.Cause = after }

// causeOfStored returns a cause for the object that the API server has stored: other clients may have edited it, and the API server may have altered the changes
// of handlers.
func (s *Session) causeOfStored(ctx context.Context, c cause.Cause, change *patch.Change) (after cause.Cause, isAltered bool) {
	if !s.Unmatched && !change.Recovered { // a recovered change may contain changes of other clients
		c, isAltered = s.Detector.MergeStored(c, s.Content(), change.HandlerPatch, log.FromContext(ctx))
	}
	return c.WithLive(s.Detector.Essence.Build(s.Content())), isAltered
}

// noteBaseline records the baseline that was written.
func (s *Session) noteBaseline(written []byte) {
	if written == nil {
		return
	}
	s.Memory.Baselines = s.Memory.Baselines.With(written, s.Baseline.Fetch(s.Base()))
	s.Memory.PausesAtBaseline = s.Committer.Pauses()
	s.OnBaseline(s.Base().GetUID(), written)
}

// warnBaselineTooLarge reports, once for each object, that the object has no room for its last-handled configuration.
func (s *Session) warnBaselineTooLarge(ctx context.Context, tx Transaction) {
	if !tx.BaselineTooLarge || s.Memory.LoggedTooLarge {
		return
	}
	s.Memory.LoggedTooLarge = true
	const note = "The object is too large for its last-handled configuration: " +
		"changes are detected, but handlers do not receive the old state"
	log.FromContext(ctx).Info(note)
	s.Warn(s.Base(), "BaselineTooLarge", note)
}

// pinAhead stores the pin before a request that changes status fields of the essence. A later request stores the records and the baseline. If the
// process ended between these two requests without a pin, the next process would handle the new status as the changed state. Handlers for the old state might
// then no longer match.
func (s *Session) pinAhead(ctx context.Context, changed patch.MergePatch) error {
	if !s.HasStatus || s.Gone || s.Memory.Overlay != nil || s.Cause.PinnedDigest != "" || s.Cause.Reason != cause.Create && s.Cause.Reason != cause.Update {
		return nil
	}
	isPinned := s.Pin.Fetch(s.Base()) != nil && !s.Cause.StalePin
	status, ok := changed["status"]
	if !ok || isPinned || !s.Detector.StatusAffectsEssence(s.Content(), status) {
		return nil
	}
	change, err := s.BuildPin(s.Base(), s.Content(), &s.Cause)
	if err == nil {
		change.FrameworkPatch, err = s.complete(ctx, change.FrameworkPatch)
	}
	if err != nil {
		return fmt.Errorf("pinning the object: %w", err)
	}
	written, err := s.Send(ctx, change)
	switch {
	case IsRejected(err):
		log.FromContext(ctx).Info("Cannot pin the object before its status changes: after a crash, handlers may not match any more", "error", err.Error())
		return nil
	case err != nil || written == nil:
		return err
	}
	return s.ContinueFrom(written)
}

// Send sends a change in one request, or in two if the kind has a status subresource. It ignores the cancellation of the context, because an operator that is stopping must still write its outcomes.
func (s *Session) Send(ctx context.Context, change *patch.Change) (client.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), WriteTimeout)
	defer cancel()
	if s.Remote == nil {
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

// sendChange sends a change to the API server, and records the resource version that the cache must show.
func (s *Session) sendChange(ctx context.Context, change *patch.Change) (client.Object, error) {
	change.Allow = s.Guard(&s.Suspensions)
	written, err := s.Writer.Write(ctx, change)
	s.noteVersions(change, written)
	if err != nil || written == nil {
		return nil, err
	}
	s.noteWritten(written)
	metrics.StoredBytes.WithLabelValues(s.Name).Observe(float64(AnnotationsSize(written)))
	s.Memory.FinalizerRemoved = s.Memory.FinalizerRemoved || change.RemoveFinalizer != "" && s.Cause.Facts.Deleting
	return written, nil
}

// WrittenVersion is a resource version that a write has created.
type WrittenVersion struct {
	Version string
	// EditedAfter is the version of the object before the request, if another client has changed the object since then. Otherwise, it is empty.
	EditedAfter string
}

// noteVersions reports the resource versions of a change. written is nil if the change was not written completely.
func (s *Session) noteVersions(change *patch.Change, written client.Object) {
	versions := change.WrittenVersions
	change.WrittenVersions = nil
	if s.OnVersions == nil || len(versions) == 0 {
		return
	}
	edited := written != nil && s.editedByOthers(change, written)
	own, before := make([]WrittenVersion, len(versions)), change.Before.GetResourceVersion()
	for i, version := range versions {
		if own[i].Version = version; edited { // it is not known before which of the requests
			own[i].EditedAfter = before
		}
		before = version
	}
	s.OnVersions(s.Base().GetUID(), own)
}

// editedByOthers reports whether the object after a write contains changes of other clients.
func (s *Session) editedByOthers(change *patch.Change, written client.Object) bool {
	after, err := s.Stored().ContentOf(written)
	if err != nil {
		return false
	}
	before := change.Content
	if change.Before == s.Base() { // which may contain progress that is not stored on the object
		before = s.Stored().Content
	}
	return change.EditedByOthers(before, after)
}

// noteWritten records the object of a response.
func (s *Session) noteWritten(written client.Object) {
	s.identify(written)
	s.OnWritten(written)
	version := written.GetResourceVersion()
	if version == s.Base().GetResourceVersion() {
		version = "" // the object has not changed, and there will be no watch event
	}
	s.awaiter.SetAwaitedVersion(version, s.ConsistencyTimeout)
}

// identify sets the apiVersion and the kind, which typed clients drop.
func (c *Committer) identify(obj client.Object) {
	obj.GetObjectKind().SetGroupVersionKind(c.Writer.GVK)
}
