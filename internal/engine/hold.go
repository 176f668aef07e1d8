package engine

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// A Hold says why the engine keeps back work for an object. The zero Hold keeps back nothing.
type Hold struct {
	Reason HoldReason
	// Message explains the hold to users.
	Message string
	// Until is the time of the next reconcile without an event. If it is zero, an event ends the hold, such as the end of a pause or the next state in the cache.
	Until time.Time
	// Scope is the work that is kept back.
	Scope HoldScope
	// ByUser is true if a user keeps back the object, which can take any time. A test does not wait for its end.
	ByUser bool
}

// A HoldReason identifies the layer or the step that holds an object.
type HoldReason string

// The reasons, in the order of the layers and steps.
const (
	HeldByShard      HoldReason = "Shard"      // the object moves to another shard
	HeldByScope      HoldReason = "Scope"      // the namespace is not handled
	HeldByWarmup     HoldReason = "Warmup"     // the caches of the namespace have not synced
	HeldByPause      HoldReason = "Pause"      // the operator is paused: by a peer, or without its Lease
	HeldByWrite      HoldReason = "Write"      // outcomes of an earlier reconcile are not written
	HeldByCache      HoldReason = "Cache"      // the cache lacks the last write
	HeldByAnnotation HoldReason = "Annotation" // the object is paused
	HeldByEpoch      HoldReason = "Epoch"      // the cache is older than the process, and a read has found the object deleted
	HeldByFinalizer  HoldReason = "Finalizer"  // the cache does not show the change of the finalizer
	HeldByLoop       HoldReason = "Loop"       // handlers cause their own calls
	HeldByDaemons    HoldReason = "Daemons"    // daemons or timers of a deleted object have not returned
)

// A HoldScope is the work that a hold keeps back. A hold that ends a reconcile keeps back the object; the others are for readers of [Engine.Holds].
type HoldScope int

const (
	// HoldsObject keeps back all later layers and steps.
	HoldsObject HoldScope = iota
	// HoldsCauses keeps back the handlers of the cause.
	HoldsCauses
	// HoldsRelease keeps back the removal of the finalizer.
	HoldsRelease
)

// isActive reports whether the hold keeps back anything.
func (h Hold) isActive() bool { return h.Reason != "" }

// holdFor returns a hold of the object for some time.
func holdFor(reason HoldReason, wait time.Duration) Hold {
	if wait <= 0 {
		return Hold{}
	}
	return Hold{Reason: reason, Until: time.Now().Add(wait)}
}

// holdCauses keeps back the handlers of the cause: the reconcile continues as without a change. A hold of an earlier step stays.
func (r *reconciliation) holdCauses(hold Hold) {
	if r.held.isActive() {
		return
	}
	r.session.Cause = r.session.Cause.WithReason(cause.Noop)
	r.held = hold
}

// result is the result of a reconcile that ends with the hold.
func (h Hold) result() reconcile.Result {
	if h.Until.IsZero() {
		return reconcile.Result{}
	}
	return requeue(time.Until(h.Until))
}

// A subject is an object whose holds are wanted. It is never changed.
type subject struct {
	key   types.NamespacedName
	obj   client.Object
	known *objectState // a copy of what the process knows of the object; empty while a worker reconciles it
}

// A CauseHold keeps back handlers of causes, for example until a time of the day.
type CauseHold struct {
	// Reason identifies the hold in metrics.
	Reason HoldReason
	// Check returns why the handlers of a cause must wait; the zero Hold if they need not wait. Only Message, Until and ByUser count. Check has no effects. It is
	// called in each reconcile of an object with a cause, and for each question about the holds of the object.
	Check func(obj client.Object, reason cause.Reason) Hold
}

// holdCause keeps back the handlers of the cause if one of the holds of the kind does.
func (e *Engine) holdCause(ctx context.Context, r *reconciliation) (Hold, error) {
	hold := e.causeHold(r.draft.Base(), r.session.Cause.Reason)
	if hold.isActive() {
		log.FromContext(ctx).V(1).Info("The handlers of the cause are called later", "reason", r.session.Cause.Reason, "why", hold.Message)
	}
	return hold, nil
}

func (e *Engine) checkCause(s subject) Hold {
	if len(e.CauseHolds) == 0 {
		return Hold{}
	}
	r := e.newReconciliation(s.known)
	if r.draft.SetBase(s.obj) != nil {
		return Hold{}
	}
	ctx := log.IntoContext(context.Background(), logr.Discard())
	if r.session.UseOverlay(ctx) != nil {
		return Hold{}
	}
	e.detect(ctx, r, func(error) {})
	return e.causeHold(s.obj, r.session.Cause.Reason)
}

func (e *Engine) causeHold(obj client.Object, reason cause.Reason) Hold {
	if !reason.HasHandlers() {
		return Hold{}
	}
	for _, one := range e.CauseHolds {
		if hold := one.Check(obj, reason); hold.Message != "" {
			hold.Reason, hold.Scope = one.Reason, HoldsCauses
			return hold
		}
	}
	return Hold{}
}

// Holds returns why the engine keeps back work for an object that it has observed: the holds of all layers and steps that the object would meet now, in their order.
// It has no effects. While a worker reconciles the object, what the process keeps about its writes is not known.
func (e *Engine) Holds(obj client.Object) []Hold {
	known := e.tryCopyState(obj.GetUID())
	if known == nil {
		known = &objectState{}
	}
	return e.holdsOf(subject{key: client.ObjectKeyFromObject(obj), obj: obj, known: known})
}

func (e *Engine) holdsOf(s subject) (holds []Hold) {
	for _, l := range e.layers.list {
		if h := l.hold(s.key); h.isActive() {
			holds = append(holds, h)
		}
	}
	for _, step := range steps {
		if step.check == nil {
			continue
		}
		if h := step.check(e, s); h.isActive() {
			holds = append(holds, h)
		}
	}
	return holds
}

// heldObjects are the objects that a step holds for one reason.
type heldObjects struct {
	reason  HoldReason
	objects metrics.ObjectSet
	gauge   prometheus.Gauge
}

// heldByStep returns an empty set for each of the reasons for which a step ends a reconcile or keeps back a cause.
func (e *Engine) heldByStep() (held []*heldObjects) {
	for _, s := range steps {
		for _, reason := range s.reasons {
			held = append(held, newHeldObjects(e.Name, reason))
		}
	}
	for _, one := range e.CauseHolds {
		held = append(held, newHeldObjects(e.Name, one.Reason))
	}
	return held
}

func newHeldObjects(kind string, reason HoldReason) *heldObjects {
	gauge := metrics.HeldObjects.WithLabelValues(kind, strings.ToLower(string(reason)))
	gauge.Set(0) // an earlier operator in this process may have set it
	return &heldObjects{reason: reason, gauge: gauge}
}

// noteHold records which step holds the object of a key, for the metric; an empty reason if none does.
func (e *Engine) noteHold(key types.NamespacedName, reason HoldReason) {
	for _, h := range e.held.bySteps {
		h.objects.Note(h.gauge, key, h.reason == reason)
	}
}

// noteLoop records whether the handlers of the object of a key cause their own calls.
func (e *Engine) noteLoop(key types.NamespacedName, loops bool) {
	e.held.looping.objects.Note(e.held.looping.gauge, key, loops)
}

// IsHeldBy reports whether one of the holds has one of the reasons.
func IsHeldBy(holds []Hold, reasons ...HoldReason) bool {
	return slices.ContainsFunc(holds, func(h Hold) bool { return slices.Contains(reasons, h.Reason) })
}
