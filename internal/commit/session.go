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

// Session writes the changes of one reconcile, in one write or several. Only the object's worker uses it.
//
// Each write updates the draft and the cause, so that the session continues with the object from the response. [Session.Write] isolates
// rejected changes and reverts them.
type Session struct {
	committer *Committer
	builder   *Builder
	memory    *Memory
	// Draft is the object with the pending changes.
	Draft *Draft
	// Cause is what happened to the object, and Records are its handlers' records.
	Cause   cause.Cause
	Records *progress.State

	// Gone is true if the object no longer exists. Nothing is written then.
	Gone bool
	// Leaving is true if the object no longer matches the cache's selectors. The next write is then the last one.
	Leaving bool
	// Unmatched is true if no cause handler matches the object.
	Unmatched bool
	// Pauses is how often the operator was paused before the object was read, and Suspensions how often the process was suspended.
	Pauses      int32
	Suspensions int64

	// Annotate changes the object's annotations in the next write, in addition to the records. It is optional.
	Annotate func(annotations map[string]string)

	// ReportRejected is true if the API server has rejected the conditions about handlers.
	ReportRejected bool

	callsEnded   bool                // the next write is this reconcile's last, and the cause may be completed
	edited       bool                // handlers' changes were written
	observations []patch.Observation // in the changes that this session has written
	raised       patch.Generations   // the generations that only our own writes have superseded
	conflicts    bool                // another operator has saved the progress in the meantime

	retriesOverlay bool // the overlay must be sent again, even if nothing is added to it
	writing        writing
	result         Result // of the last write
}

// writing is the state of an unfinished write.
type writing struct {
	change       *patch.Change    // nil if there is none
	pending      bool             // the write has failed and must be retried
	reduced      *patch.Change    // the change after dropping fields that another client has changed; the next one resumes from it
	failures     int              // how often writing the change has failed
	baseline     []byte           // the new baseline in the change; nil if there is none
	handled      map[string]any   // the handled essence after the write
	isolated     *isolation       // set while the patches are written one by one
	revert       patch.MergePatch // undoes the written parts of rejected patches
	spec         *patch.Change    // the change, if it is only the part outside of the status
	sendsOverlay bool             // the change includes the overlay
	sent         *patch.Change    // a change that was accepted, but whose framework's part isn't saved yet; nil if there is none
	response     client.Object    // to the sent change; nil if there was nothing to send
}

// isolation is the state of a session while it writes the patches of a rejected change one by one.
type isolation struct {
	base   client.Object   // the object that the handlers received
	partly bool            // the status of the whole change was written
	undone []*HandlerPatch // the rejected patches that were partly written
}

// A Result says what a write has done. It is valid even with an error, because the API server may have accepted some of the write's
// requests.
type Result struct {
	// Object is the object after the write. It is nil after an error, or if the object no longer exists.
	Object client.Object
	// Accepted are the changes that the API server has accepted, in order.
	Accepted []Accepted
	// Awaited are the resource versions that the cache must show, in order. An empty one stands for a request that didn't change the
	// object.
	Awaited []string
	// Rejected is true if the API server has rejected changes. Then no more handlers are called in this reconcile.
	Rejected bool
	// Deleted is true if the object no longer exists.
	Deleted bool
	// Pending is true if the write has failed. It must be retried before the next decision.
	Pending bool
}

// Accepted are changes that the API server has accepted.
type Accepted struct {
	// Whole is true if these are all changes since the last write. It is false for a part: what a running handler has flushed, or the
	// changes outside of the status.
	Whole bool
	// Before is the object before the write, and Live its essence.
	Before patch.Converted
	Live   map[string]any
	// Changes are the handlers' changes, and Patches are the same changes per handler.
	Changes patch.MergePatch
	Patches []*HandlerPatch
	// Stored is the JSON form of the object after the write, or nil if nothing was sent.
	Stored map[string]any
	// Version is the resource version after the write.
	Version string
}

// NewSession returns a session without an object; set it with [Draft.SetBase].
func (c *Committer) NewSession(memory *Memory) *Session {
	one := &struct { // one allocation for both
		Session
		draft Draft
	}{}
	one.draft = Draft{newObject: c.Writer.NewObject, committer: c, memory: memory}
	one.Session = Session{committer: c, builder: c.Builder, memory: memory, Draft: &one.draft}
	return &one.Session
}

// Result returns what the last write or flush has done, or the current one so far.
func (s *Session) Result() Result { return s.result }

// EndCalls must be called after all calls of cause handlers. waits is true if the cause cannot be completed until daemons and timers have
// stopped.
func (s *Session) EndCalls(waits bool) {
	s.callsEnded = !waits
}

// IsFinished reports whether the cause is over: all handlers have finished, and a deleted object's daemons and timers have stopped.
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

// causeOfStored adapts a cause to the stored object, because other clients may have edited it, and the API server may have altered the
// handlers' changes.
func (s *Session) causeOfStored(ctx context.Context, c cause.Cause, change *patch.Change) (after cause.Cause, isAltered bool) {
	if !s.Unmatched && !change.Recovered { // a recovered change may include other clients' changes
		c, isAltered = s.builder.Detector.MergeStored(c, s.Draft.Content(), change.HandlerPatch, log.FromContext(ctx))
	}
	c.Live = s.builder.Detector.Essence.Build(s.Draft.Content())
	return c, isAltered
}

// noteAccepted adds what the API server has accepted to the result, and returns the JSON form of the response. Without a response, nothing
// was sent.
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
		Leaving: s.Leaving, Edited: s.edited, Annotate: s.Annotate, Patches: s.Draft.Patches(), Revert: s.writing.revert, Now: now(),
	}
}

// noteBaseline remembers the baseline that was written.
func (s *Session) noteBaseline(written []byte) {
	if written == nil {
		return
	}
	s.memory.Baselines = s.memory.Baselines.With(written, s.builder.Baseline.Fetch(s.Draft.Base()))
	s.memory.PausesAtBaseline = s.committer.Pauses()
	s.committer.OnBaseline(s.Draft.Base().GetUID(), written)
}

// warnBaselineTooLarge reports, once per object, that the last-handled configuration doesn't fit on the object.
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
