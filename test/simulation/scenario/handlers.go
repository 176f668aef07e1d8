package scenario

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// handlerEnv gives the handlers of one operator process access to the world.
type handlerEnv struct {
	*world
	operator *operator
}

// declared returns a resource with the handlers of the plan.
func declared[T client.Object](p handlerEnv, obj T) kopf.Option {
	// The retry delays after API faults match the tick of the scenario.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](p.Tick/100, 10*p.Tick)
	resource := kopf.For(obj, kopf.WithControllerOptions(controller.Options{RateLimiter: limiter}))
	for i := range p.plan.Handlers {
		h := &p.plan.Handlers[i]
		options := []kopf.HandlerOption{kopf.Backoff(h.Backoff), kopf.ErrorMode(h.Errors)}
		if h.Retries > 0 {
			options = append(options, kopf.Retries(h.Retries))
		}
		if h.Optional {
			options = append(options, kopf.Optional())
		}
		resource.On(h.ID, h.Reasons, func(ctx context.Context, req *kopf.Request[T]) error {
			var old map[string]any
			if any(req.Old) != any(*new(T)) {
				old = content(req.Old)
			}
			return p.handle(ctx, h, req.Object, old, req.Reason, req.Attempt.Number, func() { req.SetResult(map[string]any{"done": true}) })
		}, options...)
	}
	return resource
}

// handle is the body of all handlers. It records the call, works for some time, changes the object, and succeeds or
// fails.
func (p handlerEnv) handle(ctx context.Context, h *Handler, obj client.Object, old map[string]any,
	reason kopf.Reason, attempt int, setResult func(),
) error {
	if p.operator.link.hasCrashed() {
		return errors.New("this operator has crashed")
	}
	c := p.beginCall(h, obj, old, reason, attempt)
	if h.Deaf {
		pause(context.WithoutCancel(ctx), h.Work)
	} else if !pause(ctx, h.Work) {
		p.endCall(c, outcome{err: ctx.Err()})
		return ctx.Err()
	}
	edit(h, obj, attempt)
	if h.Result {
		setResult()
	}
	v := p.chooseOutcome(h, c)
	if ctx.Err() != nil && !v.counts {
		v.final = false // the engine repeats an interrupted attempt
	}
	p.endCall(c, v)
	if errors.Is(v.err, errPanic) {
		panic(v.err)
	}
	return v.err
}

// outcome is the outcome of an attempt.
type outcome struct {
	err    error
	final  bool          // whether this is the last attempt
	counts bool          // whether the attempt counts even if the operator is stopping
	delay  time.Duration // delay before the next attempt
}

var (
	errTrouble = errors.New("trouble")
	errPanic   = errors.New("panic")
)

// chooseOutcome chooses the outcome of an attempt. Each handler fails a limited number of times.
func (p handlerEnv) chooseOutcome(h *Handler, c *call) (v outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := h.ID + " " + c.name
	if p.failed[key] >= h.Fails || p.rand.Float64() >= h.FailRate {
		return outcome{final: true, counts: true}
	}
	p.failed[key]++
	last := h.Retries > 0 && c.attempt+1 >= h.Retries
	switch p.rand.IntN(8) {
	case 0:
		return outcome{err: kopf.Permanent(errTrouble), final: true, counts: true}
	case 1, 2, 3:
		delay := time.Duration(p.rand.IntN(20)) * p.Tick
		return outcome{err: kopf.Temporary(errTrouble, delay), final: last, counts: true, delay: delay}
	case 4:
		v.err = errPanic
	default:
		v.err = errTrouble
	}
	v.final, v.delay = last || h.Errors != progress.ErrorsTemporary, h.Backoff
	return v
}

// edit makes the handler's change of the object.
func edit(h *Handler, obj client.Object, attempt int) {
	value := strconv.Itoa(attempt)
	switch h.Edits {
	case EditNothing:
	case EditLabel:
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[ownPrefix+h.ID] = value
		obj.SetLabels(labels)
	case EditAnnotation:
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[ownPrefix+h.ID] = value
		obj.SetAnnotations(annotations)
	case EditTags:
		change(obj, func(content map[string]any) {
			tags, _, _ := unstructured.NestedStringSlice(content, "spec", "tags")
			if !slices.Contains(tags, h.ID) {
				_ = unstructured.SetNestedStringSlice(content, append(tags, h.ID), "spec", "tags")
			}
		})
	case EditStatus:
		change(obj, func(content map[string]any) {
			_ = unstructured.SetNestedField(content, h.ID+" "+value, "status", "phase")
		})
	}
}

// beginCall records a call, and runs the checks that are possible at its start.
func (p handlerEnv) beginCall(h *Handler, obj client.Object, old map[string]any, reason kopf.Reason, attempt int) *call {
	version, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	c := &call{
		handler: h, uid: obj.GetUID(), name: obj.GetName(), process: p.operator.process, reason: reason, attempt: attempt,
		version: version, state: stateOf(content(obj)), start: time.Now(), request: obj.GetAnnotations()[p.requestKey(h)],
	}
	if old != nil {
		c.old = new(stateOf(old))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.began = p.moment()
	p.notef("(%d) → %s, version %d, %s → %s", c.process, c, c.version, c.old, c.state)
	p.checkEntry(c)
	p.calls = append(p.calls, c)
	return c
}

// endCall records the end of a call, unless the operator has crashed.
func (p handlerEnv) endCall(c *call, v outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.operator.link.hasCrashed() {
		p.notef("(%d) ← %s, after a crash", c.process, c)
		return
	}
	c.end, c.ended, c.outcome = time.Now(), p.moment(), v
	p.notef("(%d) ← %s: error %v, final: %t, next after %s", c.process, c, v.err, v.final, v.delay)
}
