package kopftest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// RunUntilQuiet waits until the operator has nothing left to do: its caches have seen what there is, no handler is at work, none
// is to be called again, no object that is being deleted is held by it, and it has told the server of its admission handlers.
// Daemons and timers do not count. It fails the test if that does not come about within 30 seconds, or, in a bubble of
// testing/synctest, 25 hours, and tells what is left.
//
// In real time it has to be so for 300 ms: between what a cache has seen and the call of a handler there is a queue, and a server hears
// of admission handlers a moment after it was told; on a busy machine, await their first answer by Eventually, with client.DryRunAll. In a
// bubble of testing/synctest delays cost nearly no time: some seconds for a day, as queues and caches have their own clocks.
func (o *Operator) RunUntilQuiet(t testing.TB) {
	t.Helper()
	if left := o.quiet(t.Context()); left != "" {
		t.Fatalf("kopftest: %s", left)
	}
	if !o.hasEnded() {
		return
	}
	if err := o.end(); err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	t.Fatalf("kopftest: the operator does not run any more, as it was stopped or crashed: run another one")
}

// quiet waits for the same, or for the end of the operator, and tells what is left when it takes too long.
func (o *Operator) quiet(ctx context.Context) string {
	o.tracker.noteWait()
	virtual, limit := inBubble(), quietTimeout
	if virtual {
		limit = quietTimeoutVirtual
	}
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithTimeout(ctx, 2*limit) // what is left can be told at the deadline, but a cache that never begins is not waited for
	defer cancel()
	go func() { // it never does when the operator has ended
		select {
		case <-o.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait, passes, restless := pollInterval, -1, time.Now()
	for {
		if virtual {
			synctest.Wait()
		}
		left, err := o.pendingWork(ctx)
		now := o.tracker.reconcileCount()
		rests := err == nil && left == "" && now == passes
		if !rests {
			restless = time.Now()
		}
		switch {
		case o.hasEnded(), rests && (virtual || time.Since(restless) >= quietFor):
			return ""
		case time.Now().After(deadline) && err != nil:
			return fmt.Sprintf("the operator is not quiet after %s: %v", limit, err)
		case time.Now().After(deadline):
			return fmt.Sprintf("the operator is not quiet after %s: %s", limit, left)
		}
		if now != passes {
			wait = pollInterval
		} else if virtual { // looking costs more than waiting
			wait = min(2*wait, time.Hour)
		}
		passes = now
		<-time.After(min(wait, o.tracker.untilDue()))
	}
}

// How long quiet waits, in real time, and in a bubble of testing/synctest.
const (
	quietTimeout        = 30 * time.Second
	quietTimeoutVirtual = 25 * time.Hour
)

// quietFor is how long it has to be quiet in real time. In a bubble there is no doubt: everybody waits.
const quietFor = 300 * time.Millisecond

func (o *Operator) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// left tells what is left to do; empty if nothing is.
func (o *Operator) pendingWork(ctx context.Context) (string, error) {
	if calls := o.tracker.runningForeground(); len(calls) > 0 {
		return fmt.Sprintf("%s is at work", calls[0]), nil
	}
	if !o.tracker.hasStarted() {
		return "it has not started yet (do its startup handlers end?), or it has no handlers: what plain reconcilers do is not known here, wait for that by Eventually", nil
	}
	engines, passing := o.tracker.state()
	if passing {
		return "an object is being looked at", nil
	}
	if failing := o.tracker.pendingFailure(); failing != "" {
		return failing, nil
	}
	if o.admissionManager != nil {
		if left, err := o.admissionManager.left(ctx); left != "" || err != nil {
			return left, err
		}
	}
	for _, e := range engines {
		if left, err := o.pendingObjects(ctx, e); left != "" || err != nil {
			return left, err
		}
	}
	return "", nil
}

// leftOf compares what there is of one kind to what the operator has seen of it, and looks at the progress.
func (o *Operator) pendingObjects(ctx context.Context, e *engine.Engine) (string, error) {
	cached, err := o.list(ctx, e, o.manager.GetCache())
	if err != nil {
		return "", err
	}
	if names := e.Vanished(); len(names) > 0 {
		return fmt.Sprintf("the delete handlers of %s %s, which does not exist any more, are not done", e.GVK.Kind, names[0]), nil
	}
	present, err := o.list(ctx, e, o.cluster.Client)
	if err != nil {
		return "", err
	}
	if len(cached) != len(present) {
		return fmt.Sprintf("it has not seen all objects of the kind %s", e.GVK.Kind), nil
	}
	for uid, obj := range present {
		name := fmt.Sprintf("%s %s", e.GVK.Kind, client.ObjectKeyFromObject(obj))
		switch seen, ok := cached[uid]; {
		case !ok || seen.GetResourceVersion() != obj.GetResourceVersion():
			return fmt.Sprintf("it has not seen %s as it is", name), nil
		case len(e.InProgress(obj)) > 0:
			return fmt.Sprintf("%s is not done with: %s%s", name, strings.Join(e.InProgress(obj), ", "), o.tracker.lastError(uid)), nil
		case obj.GetDeletionTimestamp() != nil && hasFinalizer(obj, e.Finalizer):
			return fmt.Sprintf("%s is being deleted, and held by the operator", name), nil
		case !o.tracker.hasReconciled(e, client.ObjectKeyFromObject(obj)) && !(e.Picks() && o.tracker.isIdle()):
			return fmt.Sprintf("%s was not looked at yet", name), nil
		}
	}
	return "", nil
}

// list reads all objects of a kind, in the way in which the operator does.
func (o *Operator) list(ctx context.Context, e *engine.Engine, from client.Reader) (map[types.UID]client.Object, error) {
	list, err := newList(e.New(), e.GVK, o.cluster.Scheme)
	if err != nil {
		return nil, err
	}
	namespaced, err := o.cluster.Client.IsObjectNamespaced(e.New())
	if err != nil {
		return nil, fmt.Errorf("finding out whether the kind %s has namespaces: %w", e.GVK.Kind, err)
	}
	var options []client.ListOption
	if namespaced {
		options = append(options, client.InNamespace(o.cluster.Namespace))
	}
	if err := from.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing the objects of the kind %s: %w", e.GVK.Kind, err)
	}
	out := map[types.UID]client.Object{}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		out[obj.GetUID()] = obj
		return nil
	})
	return out, err
}

// lastError is what the last handler of an object has said that has failed.
func (w *tracker) lastError(uid types.UID) string {
	for _, c := range slices.Backward(w.callLog()) {
		if c.UID == uid && c.Err != nil {
			return fmt.Sprintf("; %s has failed: %v", c, c.Err)
		}
	}
	return ""
}

// begun counts the passes.
func (w *tracker) reconcileCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reconciles
}

func (w *tracker) state() (engines []*engine.Engine, passing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engines, w.running > 0
}

// failing tells of a pass that has failed, or is to be continued at once, and of a level-triggered handler that has failed, and
// will be called again.
func (w *tracker) pendingFailure() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for v, result := range w.results {
		err := result.err
		if err == nil {
			err = v.engine.Retry(v.key)
		}
		if err != nil {
			return fmt.Sprintf("%s %s: %v", v.engine.GVK.Kind, v.key, err)
		}
		near := soon
		if len(v.engine.Levels.IDs()) > 0 {
			near = pollInterval // an interval may be short
		}
		if !result.due.IsZero() && time.Until(result.due) < near {
			return fmt.Sprintf("%s %s is to be looked at again", v.engine.GVK.Kind, v.key)
		}
	}
	for f, err := range w.failures {
		if err != nil && !isPermanentError(err) {
			return fmt.Sprintf("%s of %s %s has failed: %v", f.handler, f.engine.GVK.Kind, f.key, err)
		}
	}
	return ""
}

// soon is what is waited for in any case: the second half of something that takes two passes.
const soon = time.Second

// untilDue is how long it takes until something is due, and a little more; an hour if nothing is.
func (w *tracker) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := time.Hour
	for _, result := range w.results {
		if wait := time.Until(result.due); !result.due.IsZero() && wait > 0 {
			next = min(next, wait+time.Millisecond)
		}
	}
	return next
}

// hasStarted tells whether all engines are there that there will be.
func (w *tracker) hasStarted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started && len(w.engines) >= w.expectedEngines
}

// awaited takes note that somebody waits.
func (w *tracker) noteWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastActivity = time.Now()
}

// isIdle tells whether nothing has happened for a while: what was not looked at by then is left alone.
func (w *tracker) isIdle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.lastActivity) >= soon
}

func (w *tracker) hasReconciled(e *engine.Engine, key types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.results[objectRef{e, key}]
	return ok
}

// inBubble tells whether the caller is in a bubble of testing/synctest.
func inBubble() (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	synctest.Wait() // panics outside of one
	return true
}
