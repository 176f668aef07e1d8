package ring

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
)

// ErrLost means that the process may no longer hold the Lease.
var ErrLost = errors.New("the shard has lost its Lease: another process may handle its objects")

// errNotOurs means that someone else holds the Lease, or that it was deleted.
var errNotOurs = errors.New("the Lease is held by another process, or was deleted")

var errSuspended = errors.New("the process was suspended")

// LeaseOptions configure a [Lease].
type LeaseOptions struct {
	Identity
	Client coordinationv1client.LeasesGetter
	// Duration is how long after the last renewal no other process may handle the shard's objects. RenewDeadline is how long after the last
	// renewal [Lease.Keep] gives up. RetryPeriod is the time between renewals.
	Duration, RenewDeadline, RetryPeriod time.Duration
	// WallClock returns the wall clock's time. Default: time.Now.
	WallClock func() time.Time
	// OnRenewal is called with the wall clock's time after each request that has acquired or renewed the Lease. It is optional.
	OnRenewal func(time.Time)
	Log       logr.Logger
}

// A Lease is held by this process. Its methods must not be called concurrently, except [Lease.IsOverdue].
type Lease struct {
	options LeaseOptions
	lease   *coordinationv1.Lease          // the last read or written state; nil if the Lease does not exist
	renewed atomic.Pointer[clocks.Reading] // when the last successful request was started
	taken   atomic.Bool                    // someone else holds the Lease, or it was deleted
}

func (o *LeaseOptions) now() clocks.Reading { return clocks.Read(o.WallClock) }

// AcquireLease waits until the process holds the Lease. It fails if another process keeps renewing the Lease, or if the Lease doesn't
// belong to a shard of the ring. With a Total, it first waits until no process with a different total holds a Lease of the ring, and fails
// if one of them keeps renewing its Lease. If it fails or the context is cancelled first, it tries to remove what it has written.
func AcquireLease(ctx context.Context, options LeaseOptions) (*Lease, error) {
	if options.WallClock == nil {
		options.WallClock = time.Now
	}
	if options.Total > 0 {
		return acquireWithTotal(ctx, options)
	}
	return acquire(ctx, options)
}

func acquire(ctx context.Context, options LeaseOptions) (*Lease, error) {
	l := &Lease{options: options}
	if err := l.acquire(ctx); err != nil {
		l.withdraw(context.WithoutCancel(ctx))
		return nil, err
	}
	return l, nil
}

func (l *Lease) acquire(ctx context.Context) error {
	options := &l.options
	var first *coordinationv1.Lease // the first state with the current holder
	var since time.Time             // when it was read, on the monotonic clock
	logged := ""
	for {
		err := l.read(ctx)
		if err == nil {
			if !sameHolder(first, l.lease) || renewed(first, l.lease) && holder(l.lease) != options.Name {
				first, since = l.lease, time.Now()
			}
			decision, refused := options.Decide(l.lease, first, time.Since(since))
			if refused != nil {
				return refused
			}
			if decision != Wait {
				if err = l.write(ctx, options.Name); err == nil && !l.IsOverdue() { // otherwise, the process was suspended meanwhile
					return nil
				}
			} else {
				if current := l.lease.Annotations[InstanceAnnotation] + holder(l.lease); current != logged {
					logged = current
					options.Log.Info("Waiting until the Lease of the shard expires", "lease", options.Name, "holder", holder(l.lease), "duration", durationOf(l.lease).String())
				}
				if options.hasToAnnounce(l.lease) {
					err = l.setSuccessor(ctx, options.Instance)
				}
			}
		}
		if isPermanent(err) {
			return fmt.Errorf("acquiring the Lease %s/%s of the shard: %w", options.Namespace, options.Name, err)
		}
		if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			options.Log.Error(err, "Failed to acquire the Lease of the shard; retrying", "lease", options.Name)
		}
		if !sleep(ctx, options.RetryPeriod) {
			return context.Cause(ctx)
		}
	}
}

// withdraw removes what an unsuccessful process has written into the Lease. That is its announcement, or even itself as the holder if the
// response to that write was lost. It gives up after the first error, or after the RetryPeriod.
func (l *Lease) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.options.RetryPeriod)
	defer cancel()
	for l.read(ctx) == nil && l.lease != nil {
		var err error
		switch {
		case l.options.isHeldBy(l.lease):
			err = l.write(ctx, "")
		case l.lease.Annotations[SuccessorAnnotation] == l.options.Instance:
			err = l.setSuccessor(ctx, "")
		default:
			return
		}
		if err != nil && !apierrors.IsConflict(err) {
			return
		}
	}
}

func isPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsInvalid(err)
}

// Keep renews the Lease until the context is cancelled. It returns [ErrLost] if the Lease couldn't be renewed before the RenewDeadline, or
// if someone else holds it.
//
// After a suspension that the operator's fence has noticed, Keep tries once more even if the RenewDeadline has passed. If that succeeds, no
// other process can have handled the objects. After a shorter suspension, the operator goes on without a pause, so Keep doesn't try after
// the RenewDeadline. A request that ignores its context, for example because it waits for a credential plugin, delays Keep. The fence is
// then active, see [Lease.IsOverdue].
func (l *Lease) Keep(ctx context.Context) error {
	o := &l.options
	lastAttempt := o.RetryPeriod / 4           // what the last attempt gets at least
	lastErr := errSuspended                    // after a successful renewal, only a suspension can exceed the RenewDeadline
	suspended, took := false, time.Duration(0) // of the last failed attempt
	for {
		pause := time.Duration(0)
		if !suspended {
			pause = max(0, min(o.RetryPeriod-took, o.RenewDeadline-l.age()-lastAttempt))
		}
		began := o.now()
		if !sleep(ctx, pause) {
			return nil
		}
		suspended = suspended || o.wasSuspended(began, pause)
		timeout := min(o.RenewDeadline-l.age(), max(o.RetryPeriod, o.RenewDeadline/3))
		if suspended {
			timeout = max(o.RetryPeriod, o.RenewDeadline/2)
		}
		if timeout <= 0 {
			return l.lost(lastErr)
		}
		began = o.now()
		err := l.renew(ctx, timeout)
		took = o.now().Since(began)
		suspended = false
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the process no longer needs the Lease
		case err == nil:
			took, suspended = 0, o.wasSuspended(began, timeout) // during the request
			lastErr = errSuspended
			continue
		case errors.Is(err, errNotOurs):
			l.taken.Store(true)
			return l.lost(err)
		case o.wasSuspended(began, timeout):
			suspended = true // during the request
		case l.age() >= o.RenewDeadline-lastAttempt:
			return l.lost(err)
		}
		lastErr = err
		o.Log.Error(err, "Failed to renew the Lease of the shard; retrying", "lease", o.Name, "renewed", l.age().Round(time.Millisecond).String())
	}
}

// wasSuspended reports whether the process, while it was waiting for at most the given time, was suspended long enough for the fence to
// notice.
func (o *LeaseOptions) wasSuspended(since clocks.Reading, wait time.Duration) bool {
	return o.now().Since(since) >= wait+o.Duration-o.RenewDeadline
}

func (l *Lease) lost(err error) error {
	return fmt.Errorf("%w: Lease %s/%s, renewed %s ago: %w", ErrLost, l.options.Namespace, l.options.Name, l.age().Round(time.Millisecond), err)
}

// age returns the time since the last renewal.
func (l *Lease) age() time.Duration { return l.options.now().Since(*l.renewed.Load()) }

// Remaining returns for how long no other process can handle the shard's objects. It returns 0 once Keep has found that someone else holds
// the Lease, or that it was deleted.
func (l *Lease) Remaining() time.Duration {
	if l.taken.Load() {
		return 0
	}
	return max(0, l.options.Duration-l.age())
}

// IsOverdue reports whether the Lease was not renewed before the RenewDeadline, or Keep has found that the process no longer holds it. It
// never waits for a request of [Lease.Keep], and is safe for concurrent use.
func (l *Lease) IsOverdue() bool { return l.taken.Load() || l.age() >= l.options.RenewDeadline }

// Release releases the Lease, so that the sharder moves the objects immediately. All work must be finished by then.
func (l *Lease) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.options.RenewDeadline)
	defer cancel()
	for {
		err := l.write(ctx, "")
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := l.read(ctx); err != nil {
			return err
		}
		if !l.options.isHeldBy(l.lease) {
			return nil
		}
	}
}

// renew writes the Lease. After a conflict, it reads the Lease and tries again, because the sharder adds labels.
func (l *Lease) renew(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := l.write(ctx, l.options.Name)
	if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		return err
	}
	if err := l.read(ctx); err != nil {
		return err
	}
	if !l.options.isHeldBy(l.lease) {
		return errNotOurs
	}
	return l.write(ctx, l.options.Name)
}

func (l *Lease) read(ctx context.Context) error {
	lease, err := l.options.Client.Leases(l.options.Namespace).Get(ctx, l.options.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l.lease = nil
		return nil
	case err != nil:
		return err
	}
	l.lease = lease
	return nil
}

// write creates or updates the Lease with a holder. It returns a conflict if another client has changed the Lease since it was last read or
// written.
func (l *Lease) write(ctx context.Context, holder string) error {
	o, started := &l.options, l.options.now()
	lease, err := o.next(l.lease, holder), error(nil)
	if l.lease == nil {
		lease, err = o.Client.Leases(o.Namespace).Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = o.Client.Leases(o.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	if l.lease != nil && l.lease.UID != lease.UID {
		return errNotOurs // the sharder had deleted the Lease, and the request has re-created it
	}
	l.lease = lease
	l.renewed.Store(&started)
	if holder != "" && o.OnRenewal != nil {
		o.OnRenewal(started.Wall)
	}
	return nil
}

// setSuccessor announces in the Lease that a process is waiting for it. An empty instance removes the announcement.
func (l *Lease) setSuccessor(ctx context.Context, instance string) error {
	lease := l.lease.DeepCopy()
	if setValue(&lease.Annotations, SuccessorAnnotation, instance); instance == "" {
		delete(lease.Annotations, SuccessorAnnotation)
	}
	_, err := l.options.Client.Leases(l.options.Namespace).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// next returns the Lease with a new holder; "" releases it.
func (o *LeaseOptions) next(current *coordinationv1.Lease, holderIdentity string) *coordinationv1.Lease {
	now := metav1.NewMicroTime(o.WallClock())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
	if current != nil {
		lease = current.DeepCopy()
	}
	isNew := !o.isHeldBy(current)
	setValue(&lease.Labels, o.RingLabel, o.Ring)
	if o.Total > 0 {
		setValue(&lease.Labels, TotalLabel, strconv.Itoa(o.Total))
	}
	setValue(&lease.Annotations, InstanceAnnotation, o.Instance)
	delete(lease.Annotations, SuccessorAnnotation)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holderIdentity, &now
	lease.Spec.LeaseDurationSeconds = new(int32(math.Ceil(o.Duration.Seconds())))
	if isNew || lease.Spec.AcquireTime == nil {
		lease.Spec.AcquireTime = &now
	}
	if isNew && current != nil {
		lease.Spec.LeaseTransitions = new(transitionsOf(current) + 1)
	}
	if holderIdentity == "" {
		lease.Spec.LeaseDurationSeconds = new(int32(1)) // like client-go's leader election
	}
	return lease
}

func setValue(values *map[string]string, key, value string) {
	*values = maps.Clone(*values)
	if *values == nil {
		*values = map[string]string{}
	}
	(*values)[key] = value
}

// sleep waits, and returns false if the context is cancelled first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
