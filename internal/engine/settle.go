package engine

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
)

// patience is how long the cache may take to show our own write, before the object is read from
// the API server instead. kopf: settings.persistence.consistency_timeout.
const consistencyTimeout = 5 * time.Second

// settle makes sure that the object is not older than our own last write (B-10): on an older one,
// handlers that are done would seem not to be. If the cache lags, the object comes back when the
// cache moves, and no worker waits; if it lags for long, the API server is asked. Returns how long
// to wait; 0: go on.
func (e *Engine) awaitFreshCache(ctx context.Context, r *reconciliation) (time.Duration, error) {
	if r.known.Worker.FoundDeleted {
		return consistencyTimeout, nil // the cache will say so
	}
	if unwritten := r.known.Worker.PendingWrite; unwritten != nil {
		return e.retryPendingWrite(ctx, r, unwritten)
	}
	return e.awaitCache(ctx, r)
}

func (e *Engine) awaitCache(ctx context.Context, r *reconciliation) (time.Duration, error) {
	if !e.isStale(r) {
		r.known.AwaitedVersion = ""
		return 0, nil
	}
	if left := time.Until(r.known.AwaitDeadline); left > 0 {
		metrics.OwnWriteWaits.WithLabelValues(e.Name).Inc()
		return left, nil
	}
	metrics.StaleCacheReads.WithLabelValues(e.Name).Inc()
	log.FromContext(ctx).Info("The cache does not show our last write; reading the object from the API server")
	obj, err := e.readObject(ctx, e.APIReader, client.ObjectKeyFromObject(r.before))
	if err != nil {
		return 0, err
	}
	if obj == nil || obj.GetUID() != r.before.GetUID() {
		return consistencyTimeout, nil // it is gone; the cache will say so
	}
	if !isOrdered(r.known.AwaitedVersion) {
		r.known.AwaitedVersion = "" // there is no telling when the cache has passed it
	}
	return 0, r.setBase(obj)
}

// stale reports whether our last write is missing in what was read.
func (e *Engine) isStale(r *reconciliation) bool {
	if r.known.Worker.FinalizerRemoved && r.before.GetDeletionTimestamp() != nil && e.hasFinalizer(r.before) {
		return true // the server does not count the version up when the last finalizer goes
	}
	return r.known.AwaitedVersion != "" && isOlderVersion(r.before.GetResourceVersion(), r.known.AwaitedVersion)
}

// older compares versions; those that are not numbers can only be the same or not.
func isOlderVersion(version, written string) bool {
	order, err := resourceversion.CompareResourceVersion(version, written)
	if err != nil {
		return version != written
	}
	return order < 0
}

func isOrdered(version string) bool {
	_, err := resourceversion.CompareResourceVersion(version, version)
	return err == nil
}

func (e *Engine) hasFinalizer(obj client.Object) bool {
	return slices.Contains(obj.GetFinalizers(), e.Finalizer)
}

// catchUp writes what could not be written in an earlier pass: its handlers have been called, and
// are not called again for it. It does not stand in the way of a deletion, which makes it void, nor
// of what a peer has done during a pause.
func (e *Engine) retryPendingWrite(ctx context.Context, r, unwritten *reconciliation) (time.Duration, error) {
	if r.before.GetDeletionTimestamp() != nil && unwritten.cause.Reason != cause.Delete {
		r.known.Worker.PendingWrite = nil
		return e.awaitCache(ctx, r)
	}
	if changedDuringPause, err := e.changedDuringPause(ctx, r, unwritten); changedDuringPause || err != nil {
		return 0, err
	}
	if written, err := e.write(ctx, unwritten); err != nil || written == nil {
		return consistencyTimeout, err // it is gone; the cache will say so
	}
	log.FromContext(ctx).Info("Wrote what could not be written before")
	return e.awaitCache(ctx, r)
}
