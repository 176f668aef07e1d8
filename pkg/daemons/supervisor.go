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

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// Options configure a [Supervisor].
type Options struct {
	// OnEnd is called when a stopped run has returned or is abandoned, and when a daemon or timer has ended permanently. Use it to enqueue
	// the object. It isn't called after Forget or during shutdown. It must not block.
	OnEnd func(Key)
	// GracePeriod is how long to wait for runs without a CancellationTimeout, during shutdown and after [Supervisor.Forget]. Default: 5
	// seconds.
	GracePeriod time.Duration
	// ReportEvery is the interval between warnings about a run that ignores the cancellation of its context. Default: one minute.
	//
	// Equivalent in kopf: settings.background.cancellation_polling.
	ReportEvery time.Duration
	// Kind is the kind of the objects in log messages. Default: the Kind of their tasks.
	Kind string
	// LeaderElection makes the supervisor run only on the leader. Default: true.
	LeaderElection *bool
}

// The defaults of [Options].
const (
	DefaultGracePeriod = 5 * time.Second
	DefaultReportEvery = time.Minute
)

// A Supervisor runs daemons and timers for objects. It is a [manager.Runnable], so add it to the manager. All methods are safe for
// concurrent use. Runs start only while Start is running.
type Supervisor struct {
	options Options
	wakeUp  chan struct{} // signals a new earliest due time

	mu           sync.Mutex
	baseContext  context.Context // parent of all runs; nil before Start
	log          logr.Logger     // logger of the manager, after Start
	objects      map[types.UID]*object
	groups       map[groupID]*group
	schedule     queue    // due times of attempts, invocations and checks of stopping runs
	awaitedRuns  int      // number of runs that have neither ended nor been abandoned
	paused       pause    // pause that prevents starts
	shuttingDown bool     // whether shutDown was called
	deferred     []func() // functions to call after unlocking
	logged       map[loggedMessage]bool
}

var (
	_ manager.Runnable               = (*Supervisor)(nil)
	_ manager.LeaderElectionRunnable = (*Supervisor)(nil)
)

// New returns a supervisor. It doesn't run tasks before [Supervisor.Start].
func New(options Options) *Supervisor {
	if options.GracePeriod == 0 {
		options.GracePeriod = DefaultGracePeriod
	}
	if options.ReportEvery == 0 {
		options.ReportEvery = DefaultReportEvery
	}
	return &Supervisor{
		options: options,
		wakeUp:  make(chan struct{}, 1),
		log:     log.Log,
		objects: map[types.UID]*object{},
		groups:  map[groupID]*group{},

		logged: map[loggedMessage]bool{},
	}
}

// NeedLeaderElection reports whether the supervisor runs on the leader only.
func (s *Supervisor) NeedLeaderElection() bool {
	return s.options.LeaderElection == nil || *s.options.LeaderElection
}

// Start runs the daemons and timers until the context is cancelled. Then it stops them with [ErrShutdown] and returns when all runs have
// returned or are abandoned. A run is abandoned after the task's CancellationBackoff and CancellationTimeout or, without a
// CancellationTimeout, after the GracePeriod. Start returns an error if the options are invalid or if it is called twice.
func (s *Supervisor) Start(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	done := ctx.Done()
	for {
		due, over := s.runDue()
		if over {
			return nil
		}
		alarm.Reset(time.Until(due))
		select {
		case <-alarm.C:
		case <-s.wakeUp:
		case <-done:
			done = nil
			s.shutDown()
		}
	}
}

func (s *Supervisor) prepare(ctx context.Context) error {
	if s.options.GracePeriod < 0 || s.options.ReportEvery < 0 {
		return fmt.Errorf("GracePeriod and ReportEvery must not be negative, got %s and %s: leave them out for the defaults",
			s.options.GracePeriod, s.options.ReportEvery)
	}
	s.mu.Lock()
	defer s.unlock()
	if s.baseContext != nil {
		return errors.New("supervisor was already started: create a new one with New")
	}
	// Runs must not inherit the cancellation, because shutDown cancels them with ErrShutdown.
	s.baseContext, s.log = context.WithoutCancel(ctx), log.FromContext(ctx)
	return nil
}

// maxSleep is the maximum wait if no job is scheduled.
const maxSleep = 24 * time.Hour

// runDue handles all due jobs and returns the due time of the next job. The result over is true once the shutdown is complete.
func (s *Supervisor) runDue() (due time.Time, over bool) {
	s.mu.Lock()
	defer s.unlock()
	now := time.Now()
	for {
		switch j := s.schedule.head(); {
		case s.shuttingDown && s.awaitedRuns == 0:
			return now, true
		case j == nil:
			return now.Add(maxSleep), false
		case j.due.After(now):
			return j.due, false
		default:
			j.dequeue()
			s.advance(j)
		}
	}
}

func (s *Supervisor) advance(j *job) {
	if j.phase == stopping {
		s.checkStopping(j)
		return
	}
	s.startDue(j)
}

func (s *Supervisor) scheduleAt(j *job, due time.Time) {
	j.dequeue()
	s.schedule.push(j, due)
	if s.schedule.head() == j {
		s.wakeLoop()
	}
}

func (s *Supervisor) wakeLoop() {
	select {
	case s.wakeUp <- struct{}{}:
	default:
	}
}

// unlock releases the lock and calls the deferred functions.
func (s *Supervisor) unlock() {
	after := s.deferred
	s.deferred = nil
	s.mu.Unlock()
	for _, do := range after {
		do()
	}
}

// notify calls OnEnd after the lock is released.
func (s *Supervisor) notify(j *job) {
	if key := j.key; s.options.OnEnd != nil && !s.shuttingDown {
		logger := s.logger(j)
		s.deferred = append(s.deferred, func() {
			if err := guard.Catch("OnEnd", func() error { s.options.OnEnd(key); return nil }); err != nil {
				logger.Error(err, "OnEnd panicked", "stack", guard.Trace(err))
			}
		})
	}
}
