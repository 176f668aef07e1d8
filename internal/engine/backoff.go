package engine

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/suspension"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// reconcileBackoff is for reconcile handlers without their own backoff. It is controller-runtime's default.
var reconcileBackoff = progress.Exponential(5*time.Millisecond, 1000*time.Second)

// reconcilePolicy returns the policy for a reconcile handler's next attempt. As in controller-runtime, the backoff grows with every failure
// since the last success, even with those that don't use up the retries.
func (e *Engine) reconcilePolicy(h *invoke.Handler, key types.NamespacedName, st *reconcileHandlerState) progress.Policy {
	policy := h.Policy
	declared := policy.BackoffFunc
	switch {
	case policy.Backoff != nil, h.ClusterEvents != "":
		return policy
	case declared == nil && e.RateLimiter != nil:
		policy.BackoffFunc = func(progress.Attempt, error) time.Duration {
			return e.RateLimiter.When(reconcile.Request{NamespacedName: key})
		}
		return policy
	case declared == nil:
		declared = reconcileBackoff
	}
	policy.BackoffFunc = func(a progress.Attempt, err error) time.Duration {
		a.Number = st.failures
		return declared(a, err)
	}
	return policy
}

var errRequeued = errors.New("the handler has asked for another call")

// nextBackoff returns a policy's backoff for a handler that hasn't failed.
func nextBackoff(policy progress.Policy) time.Duration {
	return progress.Policy{Backoff: policy.Backoff, BackoffFunc: policy.BackoffFunc}.Outcome(progress.Record{}, now(), errRequeued).Delay
}

// noteBackoff records for [Engine.QueueRateLimiter] whether an object's reconcile handlers have failed since they last succeeded.
func (e *Engine) noteBackoff(r *reconciliation) {
	if e.RateLimiter == nil {
		return
	}
	key := client.ObjectKeyFromObject(r.draft.Base())
	for _, st := range r.details.ReconcileHandlers {
		if st.failures > 0 {
			e.queue.backingOff.Set(key, true)
			return
		}
	}
	e.queue.backingOff.Take(key)
}

// QueueRateLimiter returns the rate limiter for the controller's queue. The queue forgets an object after every reconcile that returns no
// error, but handlers' errors are never returned. So this limiter waits until the object's reconcile handlers have succeeded.
func (e *Engine) QueueRateLimiter(limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimiter[reconcile.Request] {
	return &queueRateLimiter{limiter, e}
}

type queueRateLimiter struct {
	workqueue.TypedRateLimiter[reconcile.Request]
	engine *Engine
}

// Forget implements [workqueue.TypedRateLimiter].
func (l *queueRateLimiter) Forget(req reconcile.Request) {
	if !l.engine.queue.backingOff.Get(req.NamespacedName) {
		l.TypedRateLimiter.Forget(req)
	}
}

// requeueErrors replaces expected errors with a delay, see requeueFor, and records errors for explanations.
func (e *Engine) requeueErrors(key types.NamespacedName, result reconcile.Result, err error) (reconcile.Result, error) {
	if err == nil {
		e.queue.failures.Take(key)
		return result, nil
	}
	err = guard.ShortenError(err)
	delay, unexpected := requeueFor(err)
	if delay == 0 && unexpected == nil {
		err = nil // the object is deleted
	}
	if err == nil {
		e.queue.failures.Take(key)
	} else {
		e.queue.failures.Set(key, failure{err, delay > 0})
	}
	if delay > 0 || unexpected != nil {
		return reconcile.Result{RequeueAfter: delay, Priority: new(retrying)}, unexpected
	}
	return result, nil
}

// requeue returns a result with a delay of at least a millisecond, because controller-runtime wouldn't reconcile the object again with
// zero.
func requeue(after time.Duration) reconcile.Result {
	return reconcile.Result{RequeueAfter: max(after, time.Millisecond)}
}

// requeueBefore shortens a result's delay. With 0, the result stays as it is.
func requeueBefore(result reconcile.Result, after time.Duration) reconcile.Result {
	if after == 0 || result.RequeueAfter > 0 && result.RequeueAfter <= after {
		return result
	}
	return reconcile.Result{RequeueAfter: after, Priority: new(retrying)}
}

// earlier returns the shorter of two delays, where 0 means none.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// requeueFor returns a delay for expected errors: conflicts, throttling, and a suspended process. For a deleted object it returns neither a
// delay nor an error. All other errors are returned as unexpected.
func requeueFor(err error) (delay time.Duration, unexpected error) {
	if errors.Is(err, patch.ErrGone) {
		return 0, nil
	}
	if errors.Is(err, suspension.ErrDetected) {
		return time.Second, nil
	}
	if apierrors.IsConflict(err) || errors.Is(err, progress.ErrConflict) {
		return conflictPause, nil
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 && apierrors.IsTooManyRequests(err) {
		return time.Duration(seconds) * time.Second, nil
	}
	return 0, err
}

const conflictPause = 100 * time.Millisecond
