package commit

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Session writes the changes of one reconcile, in one write or in several. Only the worker of the object uses it.
//
// Each write updates the draft and the cause: the session continues with the object of the response. Rejected changes are
// isolated and reverted within [Session.Write].
type Session struct {
	committer *Committer
	builder   *Builder
	memory    *Memory
	// Draft is the object with the pending changes.
	Draft *Draft
	// Cause is what has happened to the object, and Records are the records of its handlers.
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

	// ReportRejected is true if the API server has rejected the conditions that report handlers.
	ReportRejected bool

	callsEnded   bool                // the next write is the last write of this reconcile, and nothing prevents the end of the cause
	edited       bool                // changes of handlers were written
	observations []patch.Observation // in the changes that this session has written
	raised       patch.Generations   // the generations that only own writes have ended
	conflicts    bool                // another operator has saved the progress in the meantime

	retriesOverlay bool // the overlay must be sent again, even if nothing is added to it
	writing        writing
	result         Result // of the write
}

// writing is the state of a write that has not ended.
type writing struct {
	change       *patch.Change    // nil if there is none
	pending      bool             // the write has failed, and must be repeated
	reduced      *patch.Change    // an earlier form of the change, with fields that another client has changed
	failures     int              // the number of failed attempts to write the change
	baseline     []byte           // the new baseline in the change; nil if there is none
	handled      map[string]any   // the essence that is handled after the write
	isolated     *isolation       // the patches are being written one by one; nil if they are not
	revert       patch.MergePatch // reverts the written parts of rejected patches
	spec         *patch.Change    // the change, if it is only the part outside of the status
	sendsOverlay bool             // the overlay is part of the change
	sent         *patch.Change    // a change that the API server has accepted, but whose framework's part has not been saved; nil if there is none
	response     client.Object    // to the sent change; nil if there was nothing to send
}

// isolation is the state of a session that writes the patches of a rejected change one by one.
type isolation struct {
	base   client.Object   // the object that the handlers have received
	partly bool            // the status of the whole change was written
	undone []*HandlerPatch // the rejected patches that were written in part
}

// A Result says what a write has done. It is also valid with an error: the API server may have accepted earlier requests of the write.
type Result struct {
	// Object is the object after the write; nil after an error, and if the object no longer exists.
	Object client.Object
	// Accepted are the changes that the API server has accepted, in order.
	Accepted []Accepted
	// Awaited are the resource versions that the cache must show, in order. An empty one stands for a request that has not changed the object.
	Awaited []string
	// Rejected is true if the API server has rejected changes. No other handler is then called in this reconcile.
	Rejected bool
	// Deleted is true if the object no longer exists.
	Deleted bool
	// Pending is true if the write has failed. It must be repeated before the next decision.
	Pending bool
}

// Accepted are changes that the API server has accepted.
type Accepted struct {
	// Whole is true for all changes since the last write, and false for a part: changes that a running handler has flushed, or the changes outside of the status.
	Whole bool
	// Before is the object before the write, and Live its essence.
	Before patch.Converted
	Live   map[string]any
	// Changes are the changes of handlers, and Patches are the same changes by handler.
	Changes patch.MergePatch
	Patches []*HandlerPatch
	// Stored is the JSON form of the object after the write. It is nil if nothing was sent.
	Stored map[string]any
	// Version is the resource version after the write.
	Version string
}

// NewSession returns a session without an object. [Draft.SetBase] sets its object.
func (c *Committer) NewSession(memory *Memory) *Session {
	one := &struct { // one allocation for both
		Session
		draft Draft
	}{}
	one.draft = Draft{newObject: c.Writer.NewObject, committer: c, memory: memory}
	one.Session = Session{committer: c, builder: c.Builder, memory: memory, Draft: &one.draft}
	return &one.Session
}

// Result returns what the last write or flush has done, or the present one so far.
func (s *Session) Result() Result { return s.result }

// EndCalls is called when all calls of cause handlers have been made. waits is true if the end of the cause must wait for daemons and timers.
func (s *Session) EndCalls(waits bool) {
	s.callsEnded = !waits
}

// IsFinished reports whether the cause is over: all handlers have finished, and the daemons and timers of a deleted object have stopped.
func (s *Session) IsFinished() bool {
	return s.callsEnded && s.Cause.Reason.HasHandlers() && s.Records.Done()
}

// HasLeftovers reports whether an object without a cause has data that the next write must remove or store.
func (s *Session) HasLeftovers() bool {
	return s.Cause.Reason == cause.Noop && (s.Cause.StalePin || s.Cause.OutdatedBaseline || s.Leaving || s.retriesOverlay || s.Records.HasStale(now()))
}

// IsAtRest reports whether neither handlers nor the framework have changes to write, apart from records.
func (s *Session) IsAtRest() bool {
	_, delayed := s.Records.StaleAfter(now())
	return !s.Draft.HasChanges() && !s.Cause.OutdatedBaseline && !s.Cause.StalePin && !s.retriesOverlay && !delayed && !s.Records.HasStale(now())
}

// causeOfStored returns a cause for the object that the API server has stored: other clients may have edited it, and the API server may have altered the changes
// of handlers.
func (s *Session) causeOfStored(ctx context.Context, c cause.Cause, change *patch.Change) (after cause.Cause, isAltered bool) {
	if !s.Unmatched && !change.Recovered { // a recovered change may contain changes of other clients
		c, isAltered = s.builder.Detector.MergeStored(c, s.Draft.Content(), change.HandlerPatch, log.FromContext(ctx))
	}
	c.Live = s.builder.Detector.Essence.Build(s.Draft.Content())
	return c, isAltered
}

// noteAccepted adds what the API server has accepted to the result, and returns the JSON form of the response. Without a response, nothing was sent.
func (s *Session) noteAccepted(change *patch.Change, accepted Accepted, written client.Object) (stored map[string]any, err error) {
	accepted.Before, accepted.Live, accepted.Changes = s.Draft.base, s.Cause.Live, change.HandlerPatch
	if accepted.Version = s.Draft.Base().GetResourceVersion(); written != nil {
		accepted.Version = written.GetResourceVersion()
		if accepted.Stored, err = change.ContentOf(written); err != nil {
			return nil, err
		}
	}
	s.result.Accepted = append(s.result.Accepted, accepted)
	return accepted.Stored, nil
}

// failed keeps the write for the next reconcile.
func (s *Session) failed(err error) error {
	s.writing.pending = true
	if s.writing.baseline != nil { // the API server may have stored it
		s.memory.Baselines = nil
	}
	return fmt.Errorf("writing the object: %w", err)
}

func (s *Session) input() Input {
	return Input{
		Object: s.Draft.Base(), Content: s.Draft.Content(), Cause: &s.Cause, Progress: s.Records, Finished: s.IsFinished(), Unmatched: s.Unmatched,
		Leaving: s.Leaving, Edited: s.edited, Patches: s.Draft.Patches(), Revert: s.writing.revert, Now: now(),
	}
}

// noteBaseline records the baseline that was written.
func (s *Session) noteBaseline(written []byte) {
	if written == nil {
		return
	}
	s.memory.Baselines = s.memory.Baselines.With(written, s.builder.Baseline.Fetch(s.Draft.Base()))
	s.memory.PausesAtBaseline = s.committer.Pauses()
	s.committer.OnBaseline(s.Draft.Base().GetUID(), written)
}

// warnBaselineTooLarge reports, once for each object, that the object has no room for its last-handled configuration.
func (s *Session) warnBaselineTooLarge(ctx context.Context, tx Transaction) {
	if !tx.BaselineTooLarge || s.memory.LoggedTooLarge {
		return
	}
	s.memory.LoggedTooLarge = true
	const note = "The object is too large for its last-handled configuration: " +
		"changes are detected, but handlers do not receive the old state"
	log.FromContext(ctx).Info(note)
	s.committer.Warn(s.Draft.Base(), "BaselineTooLarge", note)
}
