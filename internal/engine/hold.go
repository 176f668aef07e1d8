package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
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

// A HoldScope is the work that a hold keeps back. A hold of the object ends the reconcile, and a hold of the cause keeps back its handlers. A hold of the release is only for readers of [Engine.Holds].
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

// A CauseHold keeps back handlers of causes, for example until a certain time of day.
type CauseHold struct {
	// Reason identifies the hold in metrics. Required.
	Reason HoldReason
	// Check returns why the handlers of a cause must wait; the zero Hold if they need not wait. Only Message, Until and ByUser count. Check has no effects. It is
	// called in each reconcile that would call handlers for a cause, and whenever the holds of the object are asked for.
	Check func(obj client.Object, reason cause.Reason) Hold
}

// IsHeldBy reports whether one of the holds has one of the reasons.
func IsHeldBy(holds []Hold, reasons ...HoldReason) bool {
	return slices.ContainsFunc(holds, func(h Hold) bool { return slices.Contains(reasons, h.Reason) })
}
