package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// sorting is what has to be known while the shares of a refused change are sent one by one.
type sorting struct {
	seen   client.Object // as the handlers have been shown it
	partly bool          // the status of all was accepted
	undone []*share      // that are refused, and of which the status was accepted
}

// refused reports whether the server does not accept what was sent, now and later.
func refused(err error) bool {
	_, rejected := errors.AsType[*patch.RejectedError](err)
	_, contested := errors.AsType[*patch.ListConflictError](err)
	return rejected || contested
}

// sort finds out whose share the server does not accept, by sending each alone, and takes that back.
// Those that are accepted are thereby written; the records follow.
func (e *Engine) sort(ctx context.Context, c *cycle, refusal error) error {
	change := c.change
	c.change, c.stopped = nil, true
	c.sorting = &sorting{seen: c.before, partly: change.FirstResponse() != nil}
	if err := e.goOn(c, change); err != nil {
		return err
	}
	if len(c.shares) == 1 && len(change.FrameworkPatch) == 0 {
		e.refuse(ctx, c, c.shares[0], c.sorting.partly, refusal)
		c.shares = nil
	}
	if len(c.shares) > 1 || len(change.FrameworkPatch) == 0 { // else it may be our part that is rejected, and the report is not
		c.unreport() // it depends on what comes now
	}
	return e.sortRest(ctx, c)
}

// sortRest goes on where it was interrupted.
func (e *Engine) sortRest(ctx context.Context, c *cycle) error {
	for len(c.shares) > 0 {
		s := c.shares[0]
		// As if nothing had been written yet: lists are held against what the handler has seen.
		if s.alone == nil {
			s.alone = &patch.Change{Before: c.sorting.seen, Content: s.base, HandlerPatch: s.doc, ReadUntyped: s.raw}
		}
		alone := s.alone
		written, err := e.send(ctx, c, alone)
		concurrent, isConcurrent := errors.AsType[*patch.ConcurrentChangeError](err)
		switch {
		case isConcurrent:
			s.alone = reduced(ctx, alone, concurrent.Fields)
			s.doc = s.alone.HandlerPatch
			continue
		case refused(err):
			e.refuse(ctx, c, s, c.sorting.partly || alone.FirstResponse() != nil, err)
			if err := e.goOn(c, alone); err != nil {
				return err
			}
		case err != nil:
			c.memory.Worker.PendingWrite = c
			return fmt.Errorf("writing the object: %w", err)
		case written != nil:
			e.reportDropped(ctx, alone, s.id, s.doc)
			// It was handled with the rest.
			c.cause.New, c.cause.Old = e.detector.MergeOwn(s.base, c.cause.New, s.doc), e.detector.MergeOwn(s.base, c.cause.Old, s.doc)
			c.edited, c.cause.OutdatedBaseline = true, true
			if err := c.begin(written); err != nil {
				return err
			}
			if !alone.Recovered { // else it may show changes of other clients
				e.observe(ctx, c, s.doc)
			}
			c.cause.Live = e.detector.Essence.Build(c.content)
		}
		c.shares = slices.Delete(c.shares, 0, 1)
	}
	return e.takeBack(c)
}

// refuse withholds a share, and remembers if some of it was written all the same.
func (e *Engine) refuse(ctx context.Context, c *cycle, s *share, partly bool, refusal error) {
	e.withhold(ctx, c, s, refusal)
	if partly {
		c.sorting.undone = append(c.sorting.undone, s)
	}
}

// goOn goes on from what a refused change has made of the object.
func (e *Engine) goOn(c *cycle, change *patch.Change) error {
	obj := change.FirstResponse()
	if obj == nil {
		return nil
	}
	e.note(c, obj)
	return c.begin(obj)
}

// takeBack has the next write take back what of refused shares was written: that of the last one first, as each was made for what
// those before it had changed. Others may have gone on with it.
func (e *Engine) takeBack(c *cycle) error {
	undone := c.sorting.undone
	c.sorting = nil
	if err := c.begin(c.before); err != nil {
		return err
	}
	content := c.content
	c.undo = nil
	for _, s := range slices.Backward(undone) {
		back := s.doc.StatusPart().Revert(s.base, content)
		c.undo, content = patch.Merge(c.undo, back), back.Apply(content)
	}
	return e.show(c, c.undo)
}

// leave gives up what was to be taken back, if the server does not accept that: somebody else is faster.
func (e *Engine) leave(ctx context.Context, c *cycle, refusal error) error {
	log.FromContext(ctx).V(1).Info("What was refused is not taken back", "error", refusal.Error())
	change := c.change
	c.undo, c.change = nil, nil
	c.unreport()
	if err := e.goOn(c, change); err != nil {
		return err
	}
	return c.begin(c.before)
}

// unreport forgets what conditions were to say about handlers. It is said anew with the next write.
func (c *cycle) unreport() {
	c.shares = slices.DeleteFunc(c.shares, func(s *share) bool { return s.report })
}

// withhold takes a share back that the server does not accept (0005 of the decisions). If its content
// was rejected, the attempt has failed with that; if somebody else was faster, it does not count.
//
// An attempt that has failed by itself stays what it is; only its share is lost.
func (e *Engine) withhold(ctx context.Context, c *cycle, s *share, refusal error) {
	logger := log.FromContext(ctx).WithValues("handler", s.id)
	if s.report {
		c.unreported = true
		logger.Error(refusal, "Failed to report the conditions")
		return
	}
	if s.open {
		s.refusal = refusal
	}
	if s.outcome.Success {
		c.state.SetRecord(s.id, s.before)
		defer c.state.WaitAgain(s.id)
	}
	if contested, ok := errors.AsType[*patch.ListConflictError](refusal); ok {
		c.memory.SetAwaitedVersion(contested.Version, patience)
		if s.level != nil {
			s.level.stirred = true
		}
		if s.outcome.Success {
			s.outcome = progress.Outcome{Err: refusal, Interrupted: true}
		}
		logger.V(1).Info("What the handler wants to write meets another's change, and is not written", "error", refusal.Error())
		return
	}
	if s.open {
		return // the attempt has failed, and that is told when it ends
	}
	if s.outcome.Success {
		s.outcome = s.policy.Outcome(s.before, now(), refusal)
		if s.level != nil {
			s.level.record = s.before
			s.level.settle(s.outcome, 0)
		}
		c.state.RecordOutcome(s.id, s.outcome, now())
	}
	logger.Error(refusal, "What the handler wants to write is rejected: the attempt has failed",
		"attempt", s.before.Retries, "forGood", s.outcome.Final, "retryAfter", s.outcome.Delay.String())
}

// refused is how an attempt ends whose share was withheld while its sub-handlers were called.
func (s *share) refused(at time.Time) progress.Outcome {
	if _, contested := errors.AsType[*patch.ListConflictError](s.refusal); contested {
		return progress.Outcome{Waiting: true} // it does not count
	}
	return s.policy.Outcome(s.before, at, s.refusal)
}
