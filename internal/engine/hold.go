package engine

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
)

// A Hold says why the engine isn't doing some or all work for an object now. The zero Hold holds nothing.
type Hold struct {
	Reason HoldReason
	// Message explains the hold to users.
	Message string
	// Until is when to reconcile the object again without an event. If it is zero, the hold lasts until an event, such as the end of a
	// pause or the next state in the cache.
	Until time.Time
	// Scope says which work is held.
	Scope HoldScope
	// ByUser is true if a user holds the object, which can take any time. Tests don't wait until it is over.
	ByUser bool
}

// A HoldReason identifies the layer or the step that holds an object.
type HoldReason string

// The reasons, in the order of the layers and steps.
const (
	HeldByShard      HoldReason = "Shard"      // the object moves to a different shard
	HeldByScope      HoldReason = "Scope"      // the namespace is not handled
	HeldByWarmup     HoldReason = "Warmup"     // the namespace's caches haven't synced
	HeldByPause      HoldReason = "Pause"      // the operator is paused, because of a peer or because it lacks its Lease
	HeldByWrite      HoldReason = "Write"      // an earlier reconcile's outcomes aren't written yet
	HeldByCache      HoldReason = "Cache"      // the cache doesn't show our last write yet
	HeldByAnnotation HoldReason = "Annotation" // the object is paused
	HeldByEpoch      HoldReason = "Epoch"      // the cache is older than the process, and the object no longer exists on the API server
	HeldByFinalizer  HoldReason = "Finalizer"  // the cache doesn't show the finalizer's change yet
	HeldByRollout    HoldReason = "Rollout"    // the rollout of a revision handles other objects first
	HeldByLoop       HoldReason = "Loop"       // handlers cause their own calls
	HeldByDaemons    HoldReason = "Daemons"    // daemons or timers of a deleted object haven't returned
)

// A HoldScope says which work a hold affects. A hold of the object stops the reconcile, and one of the cause only skips the cause's
// handlers. A hold of the release is just information for readers of [Engine.Holds].
type HoldScope int

const (
	// HoldsObject holds all later layers and steps.
	HoldsObject HoldScope = iota
	// HoldsCauses holds the cause's handlers.
	HoldsCauses
	// HoldsRelease keeps the finalizer from being removed.
	HoldsRelease
)

// isActive reports whether anything is held.
func (h Hold) isActive() bool { return h.Reason != "" }

// holdFor returns a hold of the object for some time, or none if there is nothing to wait for.
func holdFor(reason HoldReason, wait time.Duration) Hold {
	if wait <= 0 {
		return Hold{}
	}
	return Hold{Reason: reason, Until: time.Now().Add(wait)}
}

// result returns the result of a reconcile that the hold has stopped.
func (h Hold) result() reconcile.Result {
	if h.Until.IsZero() {
		return reconcile.Result{}
	}
	return requeue(time.Until(h.Until))
}

// A subject is an object whose holds are asked for. It is never changed.
type subject struct {
	key   types.NamespacedName
	obj   client.Object
	known *objectState // a copy of what the process knows about the object; empty while a worker reconciles it
}

// A CauseHold holds the handlers of causes, for example until a certain time of day.
type CauseHold struct {
	// Reason identifies the hold in metrics. Required.
	Reason HoldReason
	// Check returns why the handlers of a cause must wait, or the zero Hold. Only Message, Until and ByUser count. It must have no side
	// effects, because it isn't only called in reconciles that would call handlers for a cause, but whenever the object's holds are asked
	// for.
	Check func(obj client.Object, reason cause.Reason) Hold
}

// IsHeldBy reports whether any of the holds has one of the reasons.
func IsHeldBy(holds []Hold, reasons ...HoldReason) bool {
	return slices.ContainsFunc(holds, func(h Hold) bool { return slices.Contains(reasons, h.Reason) })
}
