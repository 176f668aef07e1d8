package engine

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/fencing"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// errOvertaken means that another process has changed what a write was computed from.
var errChangedConcurrently = errors.New("another process has changed the object since this one was suspended: nothing is written over that")

// suspensions counts the suspensions of the process until now.
func (e *Engine) suspensions() int64 {
	if e.Fence == nil {
		return 0
	}
	return e.Fence.SuspensionCount()
}

// passFence waits for the end of a hold, and returns the number of suspensions until then.
func (e *Engine) waitForFence(ctx context.Context) (suspensions int64, err error) {
	if e.Fence == nil {
		return 0, nil
	}
	return e.Fence.Wait(ctx)
}

// allow returns the check of the requests of a cycle: none is sent that was computed before a suspension. What could not be
// written is compared with the object after the hold, as after a pause.
func (e *Engine) writeGuard(r *reconciliation) func() error {
	if e.Fence == nil {
		return nil
	}
	return func() error {
		if e.Fence.IsHeld() || e.Fence.SuspensionCount() != r.suspensions {
			return fencing.ErrSuspended
		}
		return nil
	}
}

// awaitFence has a write in the middle of a handler wait for the end of a hold. If the process was suspended since the object
// was read, it asks the API server whether the object still is as the write expects it.
func (e *Engine) awaitFenceUnchanged(ctx context.Context, r *reconciliation, isExpected func(content map[string]any) bool) error {
	suspensions, err := e.waitForFence(ctx)
	if err != nil || suspensions == r.suspensions {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	live, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	switch {
	case err != nil:
		return err
	case live == nil || live.GetUID() != r.before.GetUID():
		return patch.ErrGone
	}
	content, err := patch.Content(live)
	if err != nil {
		return err
	}
	if !isExpected(content) {
		return errChangedConcurrently
	}
	r.suspensions = suspensions
	return nil
}
