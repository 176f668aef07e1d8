package kopftest

import (
	"context"
	"fmt"
	"maps"
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
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
)

// RunUntilQuiet waits until the operator has no pending work:
//
//   - its caches are up to date;
//   - no reconcile is running, waiting for a retry, or requeued within one second (20 ms for a kind with reconcile handlers);
//   - no handler is running or unfinished, except for daemons and timers. Unfinished handlers of a paused object don't count;
//   - no object under deletion has the operator's finalizer;
//   - the webhook configurations are written, if the operator has admission handlers.
//
// If work is still pending after 30 seconds, RunUntilQuiet fails the test and says what is pending. In a testing/synctest bubble, the limit
// is 25 hours of virtual time, which take a few seconds.
//
// In real time, the operator must have no pending work for 300 ms, because the cache can be up to date before a handler is called. The API
// server loads new webhook configurations with a delay. On a busy machine, wait for the first review with Eventually and client.DryRunAll.
func (o *Operator) RunUntilQuiet(t testing.TB) {
	t.Helper()
	if pending := o.quiet(t.Context()); pending != "" {
		t.Fatalf("kopftest: %s", pending)
	}
	if !o.hasEnded() {
		return
	}
	if err := o.end(); err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	t.Fatalf("kopftest: the operator was stopped or has crashed: start another one with Run")
}

// quiet waits like RunUntilQuiet, or until the operator has stopped. When the timeout expires, it returns the pending work.
func (o *Operator) quiet(ctx context.Context) string {
	o.tracker.noteWait()
	limit := quietTimeout
	if o.virtual {
		limit = quietTimeoutVirtual
	}
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithTimeout(ctx, 2*limit) // longer than the deadline, so that the pending work can be listed
	defer cancel()
	go func() { // without this, reads from a cache never return after the operator has stopped
		select {
		case <-o.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait, reconciles, lastBusy, quietPolls := pollInterval, -1, time.Now(), 0
	for {
		if o.virtual {
			synctest.Wait()
		}
		pending, err := o.pendingWork(ctx)
		now := o.tracker.reconcileCount()
		isQuiet := err == nil && pending == "" && now == reconciles
		if quietPolls++; !isQuiet {
			lastBusy, quietPolls = time.Now(), 0
		}
		switch {
		case o.hasEnded(), isQuiet && (o.virtual || time.Since(lastBusy) >= quietFor && quietPolls >= minQuietPolls):
			return ""
		case time.Now().After(deadline) && err != nil:
			return fmt.Sprintf("the operator is not quiet after %s: %v", limit, err)
		case time.Now().After(deadline) && pending == "":
			return fmt.Sprintf("the operator is not quiet after %s: it has reconciled an object within the last %s; does a timer or another client write more often?", limit, quietFor)
		case time.Now().After(deadline):
			return fmt.Sprintf("the operator is not quiet after %s: %s", limit, pending)
		}
		if now != reconciles {
			wait = pollInterval
		} else if o.virtual { // waiting in virtual time is cheap; only the checks take real time
			wait = min(2*wait, time.Hour)
		}
		reconciles = now
		<-time.After(min(wait, o.tracker.untilDue()))
	}
}

// Timeouts of quiet in real time, and in a testing/synctest bubble.
const (
	quietTimeout        = 30 * time.Second
	quietTimeoutVirtual = 25 * time.Hour
)

// quietFor is how long the operator must stay quiet in real time. In a bubble, this isn't needed, because synctest.Wait only returns when
// all goroutines are waiting.
const quietFor = 300 * time.Millisecond

// minQuietPolls is for how many checks the operator must stay quiet in real time, because quietFor can pass without any check if the
// process stalls.
const minQuietPolls = 5

func (o *Operator) hasEnded() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// pendingWork describes the first pending work that it finds, or returns an empty string.
func (o *Operator) pendingWork(ctx context.Context) (string, error) {
	if calls := o.tracker.runningForeground(); len(calls) > 0 {
		return fmt.Sprintf("%s is running", calls[0]), nil
	}
	if !o.tracker.hasStarted() {
		return "the operator has not started (a startup handler may still be running) or has no handlers; to wait for a plain reconciler, use Eventually", nil
	}
	engines, reconciling := o.tracker.state()
	if reconciling {
		return "a reconcile is running", nil
	}
	if failing := o.tracker.pendingFailure(); failing != "" {
		return failing, nil
	}
	if o.admissionManager != nil {
		if pending, err := o.admissionManager.pendingWork(ctx); pending != "" || err != nil {
			return pending, err
		}
	}
	for _, e := range engines {
		if pending, err := o.pendingObjects(ctx, e); pending != "" || err != nil {
			return pending, err
		}
	}
	return "", nil
}

// pendingObjects compares the objects of one kind with the operator's cache, and checks their progress.
func (o *Operator) pendingObjects(ctx context.Context, e *engine.Engine) (string, error) {
	cached, err := o.list(ctx, e, e.Cache)
	if err != nil {
		return "", err
	}
	if names := e.Vanished(); len(names) > 0 {
		return fmt.Sprintf("delete handlers of the deleted %s %s have not finished", e.GVK.Kind, names[0]), nil
	}
	if keys := e.WaitingEvents(); len(keys) > 0 {
		return fmt.Sprintf("an event handler of %s %s waits for its next attempt", e.GVK.Kind, keys[0]), nil
	}
	present, err := o.list(ctx, e, o.cluster.Client)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(present, func(_ types.UID, obj client.Object) bool { return !e.IsWatched(obj) })
	if len(cached) != len(present) {
		return fmt.Sprintf("the cache of the kind %s has %d objects, the server has %d", e.GVK.Kind, len(cached), len(present)), nil
	}
	for uid, obj := range present {
		name := fmt.Sprintf("%s %s", e.GVK.Kind, client.ObjectKeyFromObject(obj))
		switch seen, ok := cached[uid]; {
		case !ok || seen.GetResourceVersion() != obj.GetResourceVersion():
			return fmt.Sprintf("the cached %s is outdated", name), nil
		case slices.ContainsFunc(e.Holds(obj), func(h engine.Hold) bool { return h.ByUser }): // waits for the user
		case len(e.InProgress(obj)) > 0:
			return fmt.Sprintf("%s has unfinished handlers: %s%s%s", name, strings.Join(e.InProgress(obj), ", "), o.tracker.lastError(uid), whyHeld(e.Holds(obj))), nil
		case engine.IsHeldBy(e.Holds(obj), engine.HeldByLoop):
			return fmt.Sprintf("the handlers of %s cause their own calls again and again; the log has their names and the changed fields", name), nil
		case slices.ContainsFunc(e.Holds(obj), func(h engine.Hold) bool { return h.Scope == engine.HoldsCauses }):
			return fmt.Sprintf("the handlers of %s are not called yet%s", name, whyHeld(e.Holds(obj))), nil
		case obj.GetDeletionTimestamp() != nil && hasFinalizer(obj, e.Finalizer):
			return fmt.Sprintf("%s is under deletion and still has the operator's finalizer", name), nil
		case !o.tracker.hasReconciled(e, client.ObjectKeyFromObject(obj)) && !(e.MayFilterEvents() && o.tracker.isIdle()):
			return fmt.Sprintf("%s was not reconciled yet", name), nil
		}
	}
	return "", nil
}

func whyHeld(holds []engine.Hold) (text string) {
	for _, h := range holds {
		text += "; " + h.Message
	}
	return text
}

// list reads all objects of a kind that the operator handles.
func (o *Operator) list(ctx context.Context, e *engine.Engine, from client.Reader) (map[types.UID]client.Object, error) {
	list, err := newList(e.New(), e.GVK, o.cluster.Scheme)
	if err != nil {
		return nil, err
	}
	namespaced, err := o.cluster.Client.IsObjectNamespaced(e.New())
	if err != nil {
		return nil, fmt.Errorf("find the scope of kind %s: %w", e.GVK.Kind, err)
	}
	var options []client.ListOption
	if namespaced {
		options = append(options, client.InNamespace(o.cluster.Namespace))
		if e.Scope != nil && o.cluster.Namespace != "" && !e.Scope.InScope(types.NamespacedName{Namespace: o.cluster.Namespace}) {
			return nil, nil // the operator's cache returns an error for other namespaces
		}
	}
	out := map[types.UID]client.Object{}
	if err := from.List(ctx, list, options...); err != nil {
		newObject := decoding.Constructor(e.New())
		if newObject == nil {
			return nil, fmt.Errorf("list objects of kind %s: %w", e.GVK.Kind, err)
		}
		// The operator leaves out objects that don't decode.
		return out, decoding.Each(ctx, from, e.GVK, newObject, func() bool { return true }, func(decoded any, _ *decoding.Object) {
			if obj, ok := decoded.(client.Object); ok {
				out[obj.GetUID()] = obj
			}
		}, options...)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		obj := item.(client.Object)
		out[obj.GetUID()] = obj
		return nil
	})
	return out, err
}

// reconcileCount returns the number of started reconciles.
func (w *tracker) reconcileCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reconciles
}

func (w *tracker) state() (engines []*engine.Engine, reconciling bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.engines, w.reconciling > 0
}

// pendingFailure describes a failed reconcile, a requeue that is due soon, or a reconcile handler waiting for its retry.
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
		if len(v.engine.ReconcileHandlers.IDs()) > 0 {
			near = pollInterval // the interval of a reconcile handler may be short
		}
		if !result.due.IsZero() && time.Until(result.due) < near {
			return fmt.Sprintf("%s %s is requeued", v.engine.GVK.Kind, v.key)
		}
	}
	for f, err := range w.failures {
		if err != nil && !isPermanentError(err) {
			return fmt.Sprintf("%s of %s %s failed: %v", f.handler, f.engine.GVK.Kind, f.key, err)
		}
	}
	return ""
}

// soon is the longest delay of a requeue that counts as pending work, because some changes take two reconciles.
const soon = time.Second

// untilDue returns the time until the next requeue is due, plus a millisecond. It returns an hour if no object is requeued.
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

// hasStarted reports whether all announced engines have started.
func (w *tracker) hasStarted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started && len(w.engines) >= w.expectedEngines
}

// noteWait records the start of a wait as activity.
func (w *tracker) noteWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastActivity = time.Now()
}

// isIdle reports whether no reconcile has started within the duration soon. If an object wasn't reconciled by then, predicates have
// filtered its events.
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

// inBubble reports whether the caller runs in a bubble of testing/synctest. Only one goroutine of a bubble may call it at a time.
func inBubble() bool {
	return guard.Catch("", func() error { synctest.Wait(); return nil }) == nil // Wait panics outside of a bubble
}
