package ring

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TotalLabel is the label with the ring's fixed number of shards.
const TotalLabel = "kopf-runtime.dev/shards"

// acquireWithTotal acquires the Lease once no process with a different total holds a Lease of the ring.
//
// Processes with two totals may start at the same time. Therefore each of them first writes its own Lease and then checks again. At least
// one of them finds the other's Lease and releases its own.
func acquireWithTotal(ctx context.Context, options LeaseOptions) (*Lease, error) {
	for {
		if err := options.awaitOtherTotals(ctx); err != nil {
			return nil, err
		}
		l, err := acquire(ctx, options)
		if err != nil {
			return nil, err
		}
		others, err := options.listOtherTotals(ctx)
		if err == nil && len(others) == 0 && !l.IsOverdue() {
			return l, nil
		}
		if err := l.Release(context.WithoutCancel(ctx)); err != nil {
			options.Log.Error(err, "Failed to release the Lease of the shard; it expires")
		}
		sleep(ctx, rand.N(options.RetryPeriod)) // the other process waits for a random time as well, so one of the two comes first
	}
}

// awaitOtherTotals waits until no process with a different total holds a Lease of the ring, and fails if one of them keeps renewing its
// Lease. It releases expired Leases, so that their holders can't renew them after a suspension.
func (o *LeaseOptions) awaitOtherTotals(ctx context.Context) error {
	observed := map[string]observation{}
	for {
		others, err := o.listOtherTotals(ctx)
		for i := range others {
			other := &others[i]
			seen, known := observed[other.Name]
			if !known || !sameHolder(seen.first, other) {
				seen = observation{first: other, since: time.Now()}
				observed[other.Name] = seen
				o.Log.Info("Waiting until the Lease of a process with another number of shards expires",
					"lease", other.Name, "shards", other.Labels[TotalLabel], "duration", durationOf(other).String())
			}
			if renewed(seen.first, other) {
				return fmt.Errorf("another process renews the Lease %s/%s of the ring %q with %s shards, but this process has %d: "+
					"stop all processes of the ring before you change the number of shards", o.Namespace, other.Name, o.Ring, other.Labels[TotalLabel], o.Total)
			}
			if time.Since(seen.since) >= durationOf(other) {
				expired := &Lease{options: *o, lease: other}
				expired.options.Name = other.Name
				if err = expired.write(ctx, ""); err != nil {
					break
				}
			}
		}
		switch {
		case err == nil && len(others) == 0:
			return nil
		case isPermanent(err):
			return fmt.Errorf("checking the Leases of the ring %q in the namespace %s: %w", o.Ring, o.Namespace, err)
		case err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			o.Log.Error(err, "Failed to check the Leases of the ring; retrying", "ring", o.Ring)
		}
		if !sleep(ctx, o.RetryPeriod) {
			return context.Cause(ctx)
		}
	}
}

// listOtherTotals returns the ring's Leases held by processes with a different total.
func (o *LeaseOptions) listOtherTotals(ctx context.Context) ([]coordinationv1.Lease, error) {
	leases, err := o.listRing(ctx, "")
	return slices.DeleteFunc(leases, func(lease coordinationv1.Lease) bool {
		return holder(&lease) == "" || lease.Labels[TotalLabel] == strconv.Itoa(o.Total)
	}), err
}
