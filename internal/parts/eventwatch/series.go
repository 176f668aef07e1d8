package eventwatch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	maxRetries = 8 // the retries take about 23 seconds
)

// A series delivers each Event when it occurs. If the Event occurs again, it is delivered again, but at most once per interval.
type series struct {
	interval time.Duration
	deliver  func(ctx context.Context, d Delivery) ([]Owner, error)
	log      logr.Logger
	limiter  workqueue.TypedRateLimiter[types.UID]
	queue    workqueue.TypedRateLimitingInterface[types.UID]
	holds    bool // whether later Events wait for an Event that failed with an OrderedError; used only by run

	mu     sync.Mutex
	events map[types.UID]*occurrences
}

// An OrderedError makes a [Watcher] retry an Event before it delivers later ones. Once an Event has failed too often, later ones stop
// waiting. They wait again after an Event that has failed with an OrderedError no longer does.
type OrderedError struct{ Err error }

func (e *OrderedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *OrderedError) Unwrap() error { return e.Err }

// An UnobservedError means that the operator hasn't observed some owners of the object that an Event is about.
type UnobservedError struct{ Owners []Owner }

func (*UnobservedError) Error() string {
	return "the operator has not observed the object that the Event is about, or that owns it"
}

// occurrences is what the series knows of one Event.
type occurrences struct {
	latest      *corev1.Event // the undelivered state; nil if there is none
	earlier     bool          // whether latest is from before the start
	next        *corev1.Event // a state after latest if none was delivered yet; Events that wait after latest must come first
	nextEarlier bool
	count       int32     // count in the newest state received
	seen        time.Time // last occurrence in the newest state received
	deliveredAt time.Time
	owners      []Owner // owners that the last delivery found
	unobserved  []Owner // owners that haven't received latest, after an UnobservedError
	ordered     bool    // whether the last delivery failed with an OrderedError
}

func newSeries(interval time.Duration, deliver func(context.Context, Delivery) ([]Owner, error), log logr.Logger) *series {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](firstRetry, lastRetry)
	return &series{
		interval: cmp.Or(interval, clusterevents.DefaultInterval), deliver: deliver, log: log, limiter: limiter, holds: true,
		queue: workqueue.NewTypedRateLimitingQueue(limiter), events: map[types.UID]*occurrences{},
	}
}

// add records a state of an Event. It ignores the state if the Event hasn't occurred again, because delivering the same state twice would
// start a new interval.
func (s *series) add(event *corev1.Event, earlier bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.events[event.UID]
	if known == nil {
		known = &occurrences{}
		s.events[event.UID] = known
	}
	if Count(event) <= known.count && !LastSeen(event).After(known.seen) {
		return
	}
	known.count, known.seen = Count(event), LastSeen(event)
	if known.latest != nil && known.deliveredAt.IsZero() {
		known.next, known.nextEarlier = event, earlier
		return
	}
	known.latest, known.earlier, known.unobserved = event, earlier, nil
	s.queue.Add(event.UID)
}

// forget removes a deleted Event, unless it is still to be delivered.
func (s *series) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.events[uid]; known != nil && known.latest == nil {
		delete(s.events, uid)
	}
}

// forgetBefore removes Events that haven't occurred since a time. They may have been deleted without our noticing.
func (s *series) forgetBefore(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, known := range s.events {
		if known.latest == nil && known.seen.Before(at) {
			delete(s.events, uid)
		}
	}
}

// run delivers Events until the context is cancelled.
func (s *series) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, s.queue.ShutDown)
	defer stop()
	for {
		uid, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		for pause := s.deliverLatest(ctx, uid); pause > 0; pause = s.deliverLatest(ctx, uid) {
			sleep(ctx, pause)
		}
		s.queue.Done(uid)
	}
}

// deliverLatest delivers the latest state of an Event. If later Events must wait for it, deliverLatest returns how long to wait before the
// next call.
func (s *series) deliverLatest(ctx context.Context, uid types.UID) (pause time.Duration) {
	d := s.due(uid)
	event := d.Event
	if event == nil || ctx.Err() != nil {
		return 0
	}
	owners, err := s.deliver(ctx, d)
	if s.recordAttempt(uid, event, owners, err) {
		s.holds = true
	}
	_, ordered := errors.AsType[*OrderedError](err)
	switch retries := s.limiter.NumRequeues(uid); {
	case err == nil:
	case ctx.Err() != nil:
		return 0
	case retries < maxRetries && ordered && s.holds:
		return s.limiter.When(uid)
	case retries < maxRetries:
		s.queue.AddRateLimited(uid)
		return 0
	default:
		s.holds = s.holds && !ordered
		s.log.V(1).Info("Ignored an Event that cannot be delivered", "event", event.Name, "namespace", event.Namespace, "reason", event.Reason, "error", err.Error())
	}
	s.queue.Forget(uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.events[uid]
	known.deliveredAt = time.Now()
	if known.latest == event {
		known.latest, known.earlier, known.next, known.unobserved = known.next, known.nextEarlier, nil, nil
	}
	if known.latest != nil {
		s.queue.Add(uid) // the Event has occurred again in the meantime
	}
	return 0
}

// recordAttempt records which owners a delivery found, and how it failed. If it found none, the known ones are kept. It returns true if the
// previous delivery failed with an OrderedError and this one didn't.
func (s *series) recordAttempt(uid types.UID, event *corev1.Event, owners []Owner, err error) (recovered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.events[uid]
	if len(owners) > 0 {
		known.owners = owners
	}
	if unobserved, ok := errors.AsType[*UnobservedError](err); ok && known.latest == event {
		known.unobserved = unobserved.Owners
	}
	wasOrdered := known.ordered
	_, known.ordered = errors.AsType[*OrderedError](err)
	return wasOrdered && !known.ordered
}

// waiting returns the newest states of an owner's undelivered Events.
func (s *series) waiting(owner Owner) (waiting []*corev1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.events {
		if known.latest != nil && slices.ContainsFunc(known.owners, owner.is) {
			waiting = append(waiting, cmp.Or(known.next, known.latest))
		}
	}
	return waiting
}

// due returns the state to deliver now. If there is none, or if it must wait until the interval is over, the delivery has no Event.
func (s *series) due(uid types.UID) Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.events[uid]
	if known == nil || known.latest == nil {
		return Delivery{}
	}
	if left := time.Until(known.deliveredAt.Add(s.interval)); !known.deliveredAt.IsZero() && left > 0 {
		s.queue.AddAfter(uid, left)
		return Delivery{}
	}
	return Delivery{Event: known.latest, Earlier: known.earlier, Unobserved: known.unobserved, Waiting: s.waiting}
}
