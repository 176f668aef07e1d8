package peering

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// recorderName is the source of the Events on peering objects.
const recorderName = "kopf-runtime"

// A Peering is the part of one operator in the peering. It is a [manager.Runnable]: give it to the manager's Add. Its
// methods can be called at any time, from anywhere; until it has been started and has had its first look, the
// operator is paused.
type Peering struct {
	options  Options
	api      api
	recorder events.EventRecorder
	log      logr.Logger
	identity func() string
	wall     func() time.Time
	looked   chan struct{} // closed after the first look

	// Reports are made one after the other: held while others are told of a transition.
	reporting sync.Mutex

	mu          sync.Mutex
	done        <-chan struct{} // of the run; nil before the start
	standings   map[place]standing
	states      map[string]state // of each namespace, as others were told
	announced   map[string]bool  // pauses of which people were told, but not of their end
	changed     chan struct{}
	subscribers map[int]func(Transition)
	nextID      int
}

var (
	_ manager.Runnable               = (*Peering)(nil)
	_ manager.LeaderElectionRunnable = (*Peering)(nil)
)

// New makes the part of an operator in the peering; it starts nothing. The error tells all mistakes in the options.
func New(mgr manager.Manager, options Options) (*Peering, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	client, err := NewClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return newPeering(client, mgr.GetEventRecorder(recorderName), mgr.GetLogger(), options), nil
}

func newPeering(api api, recorder events.EventRecorder, log logr.Logger, options Options) *Peering {
	options = options.withDefaults()
	p := &Peering{
		options: options, api: api, recorder: recorder, log: log.WithName("peering").WithValues("peering", options.Name),
		wall: wallClock, looked: make(chan struct{}), standings: map[place]standing{}, states: map[string]state{}, announced: map[string]bool{},
		changed: make(chan struct{}), subscribers: map[int]func(Transition){},
	}
	p.identity = sync.OnceValue(func() string { // names of hosts may take a while
		if options.Identity != "" {
			return options.Identity
		}
		return newIdentity(time.Now())
	})
	for _, namespace := range options.places() {
		for _, group := range groups {
			p.standings[place{group, namespace}] = standing{}
		}
		p.states[namespace] = p.assess(namespace)
	}
	if options.Standalone {
		close(p.looked)
	}
	return p
}

// NeedLeaderElection reports whether peering is for the leader only.
func (p *Peering) NeedLeaderElection() bool {
	return p.options.LeaderElection == nil || *p.options.LeaderElection
}

// Identity is the one under which the other operators know this one.
func (p *Peering) Identity() string { return p.identity() }

// Start keeps the records of the operator and looks at those of the others, until the context ends. Then the operator is
// paused, its records are removed, and Start returns, within two seconds. What goes wrong meanwhile is no error of
// Start: it is tried again, and told by [Peering.Readyz] and in the log.
func (p *Peering) Start(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	if p.options.Standalone {
		<-ctx.Done()
		return nil
	}
	self := Self{Identity: p.Identity(), Priority: p.options.Priority}
	if p.options.Tie == Elect {
		self.Candidate = time.Now()
	}
	p.log.Info("Looking for peers", "identity", self.Identity, "priority", self.Priority)
	if self.Identity == "" {
		p.log.Info("The identity is empty, as " + podID + " is: another operator of which that is true would not be noticed")
	}
	defer p.forget()
	var running sync.WaitGroup
	for _, group := range groups {
		running.Go(func() { p.scout(ctx, group, self) })
	}
	running.Wait()
	return nil
}

func (p *Peering) begin(ctx context.Context) error {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil {
		return errors.New("the peering was started before: make a new one")
	}
	p.done = ctx.Done()
	for namespace := range p.states {
		p.states[namespace] = p.assess(namespace)
	}
	return nil
}
