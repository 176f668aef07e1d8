package daemons

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Options of a [Supervisor].
type Options struct {
	// OnEnd is called when a run that was told to stop has ended or was abandoned, and when a daemon or timer has
	// come to an end by itself: whoever waits for that can look at the object again. Not after Forget, and not when
	// the supervisor is shutting down. It must not block.
	OnEnd func(Key)
	// GracePeriod is how long, when the supervisor is shutting down or the object is gone, runs are waited for that
	// have no CancellationTimeout. Default: 5 seconds.
	GracePeriod time.Duration
	// ReportEvery is how often a run is reported that goes on though its context has ended. Default: one minute.
	//
	// kopf: settings.background.cancellation_polling.
	ReportEvery time.Duration
	// Kind is what the kind of the objects is called in the log. Default: the Kind of their tasks.
	Kind string
	// LeaderElection says whether the supervisor runs on the leader only. Default: true.
	LeaderElection *bool
}

// The defaults of [Options].
const (
	DefaultGracePeriod = 5 * time.Second
	DefaultReportEvery = time.Minute
)

// A Supervisor runs daemons and timers for objects. It is a [manager.Runnable]: give it to the manager's Add.
// Its methods can be called at any time, from anywhere; before Start nothing runs, and after the
// end nothing starts.
type Supervisor struct {
	options Options
	wake    chan struct{} // the first due time has changed

	mu       sync.Mutex
	base     context.Context // of all runs; nil before the start
	log      logr.Logger     // of the manager, from the start on
	objects  map[types.UID]*object
	groups   map[groupID]*group
	schedule queue    // due times: of attempts and invocations, or of reports and abandonments
	awaited  int      // runs that have not ended and are not abandoned
	paused   pause    // nothing is started there
	closed   bool     // shutting down
	after    []func() // what is to be done when the lock is free
	reported map[reported]bool
}

var (
	_ manager.Runnable               = (*Supervisor)(nil)
	_ manager.LeaderElectionRunnable = (*Supervisor)(nil)
)

// New makes a supervisor; it starts nothing.
func New(options Options) *Supervisor {
	if options.GracePeriod == 0 {
		options.GracePeriod = DefaultGracePeriod
	}
	if options.ReportEvery == 0 {
		options.ReportEvery = DefaultReportEvery
	}
	return &Supervisor{
		options: options,
		wake:    make(chan struct{}, 1),
		log:     log.Log,
		objects: map[types.UID]*object{},
		groups:  map[groupID]*group{},

		reported: map[reported]bool{},
	}
}

// NeedLeaderElection reports whether the supervisor runs on the leader only.
func (s *Supervisor) NeedLeaderElection() bool {
	return s.options.LeaderElection == nil || *s.options.LeaderElection
}

// Start runs the daemons and timers until the context ends. Then it stops them with [ErrShutdown], and returns when
// all have ended or were abandoned: each after its CancellationBackoff and CancellationTimeout, those that have
// no timeout after the grace period. The error says that it could not start.
func (s *Supervisor) Start(ctx context.Context) error {
	if err := s.open(ctx); err != nil {
		return err
	}
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	done := ctx.Done()
	for {
		due, over := s.fire()
		if over {
			return nil
		}
		alarm.Reset(time.Until(due))
		select {
		case <-alarm.C:
		case <-s.wake:
		case <-done:
			done = nil
			s.shutDown()
		}
	}
}

func (s *Supervisor) open(ctx context.Context) error {
	if s.options.GracePeriod < 0 || s.options.ReportEvery < 0 {
		return fmt.Errorf("GracePeriod (%s) and ReportEvery (%s) must not be negative: leave them out for the defaults",
			s.options.GracePeriod, s.options.ReportEvery)
	}
	s.mu.Lock()
	defer s.unlock()
	if s.base != nil {
		return errors.New("the supervisor was started before: make a new one")
	}
	// The cause of its end is for us to tell.
	s.base, s.log = context.WithoutCancel(ctx), log.FromContext(ctx)
	return nil
}

// longest is the wait when there is nothing to wait for.
const longest = 24 * time.Hour

// fire does what is due, and tells when it is to be called next; over says that it is not.
func (s *Supervisor) fire() (due time.Time, over bool) {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	for {
		switch j := s.schedule.head(); {
		case s.closed && s.awaited == 0:
			return now, true
		case j == nil:
			return now.Add(longest), false
		case j.due.After(now):
			return j.due, false
		default:
			j.remove()
			s.advance(j)
		}
	}
}

// advance does for a job what is due.
func (s *Supervisor) advance(j *job) {
	if j.phase == stopping {
		s.overdue(j)
		return
	}
	s.begin(j)
}

// wait has a job wait for its due time.
func (s *Supervisor) wait(j *job, due time.Time) {
	j.remove()
	s.schedule.push(j, due)
	if s.schedule.head() == j {
		s.rouse()
	}
}

func (s *Supervisor) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// unlock does also what was put off until now.
func (s *Supervisor) unlock() {
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// notify tells the owner of an end.
func (s *Supervisor) notify(j *job) {
	if key := j.key; s.options.OnEnd != nil && !s.closed {
		s.after = append(s.after, func() { s.options.OnEnd(key) })
	}
}
