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

// recorderName is the reporting controller of Events on peering objects.
const recorderName = "kopf-runtime"

// Peering maintains the records of one operator and observes its peers. It is a [manager.Runnable]. Its methods are safe for concurrent
// use. The operator is paused until the Peering has started and observed its peers.
type Peering struct {
	options   Options
	api       api
	recorder  events.EventRecorder
	log       logr.Logger
	identity  func() string
	wallClock func() time.Time
	observed  chan struct{} // closed once the peers are observed everywhere

	// reportMu serializes reports and is held while subscribers are called.
	reportMu sync.Mutex

	mu              sync.Mutex
	done            <-chan struct{} // done channel of the context; nil before the start
	statuses        map[location]status
	states          map[string]state // last reported state of each namespace
	announcedPauses map[string]bool  // namespaces with a pause whose start was logged, but not its end
	changed         chan struct{}
	subscribers     map[int]func(Transition)
	nextID          int
}

var (
	_ manager.Runnable               = (*Peering)(nil)
	_ manager.LeaderElectionRunnable = (*Peering)(nil)
)

// New returns a Peering that isn't started. The error joins all errors in the options.
func New(mgr manager.Manager, options Options) (*Peering, error) {
	if err := options.Check(); err != nil {
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
		wallClock: time.Now, observed: make(chan struct{}), statuses: map[location]status{}, states: map[string]state{}, announcedPauses: map[string]bool{},
		changed: make(chan struct{}), subscribers: map[int]func(Transition){},
	}
	p.identity = sync.OnceValue(func() string { // looking up the host name can be slow
		if options.Identity != "" {
			return options.Identity
		}
		return newIdentity(time.Now())
	})
	for _, namespace := range options.namespaces() {
		for _, group := range groups {
			p.statuses[location{group, namespace}] = status{}
		}
		p.states[namespace] = p.computeState(namespace)
	}
	if options.Standalone {
		close(p.observed)
	}
	return p
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (p *Peering) NeedLeaderElection() bool {
	return p.options.LeaderElection == nil || *p.options.LeaderElection
}

// Identity returns the operator's identity, which is the key of its record.
func (p *Peering) Identity() string { return p.identity() }

// Start writes the operator's records and watches its peers until the context is cancelled. Then it pauses the operator, removes the
// records, and returns within two seconds. Start retries failed requests, which [Peering.Readyz] and the log report. It returns an error
// only if it is called twice.
func (p *Peering) Start(ctx context.Context) error {
	if err := p.markStarted(ctx); err != nil {
		return err
	}
	if p.options.Standalone {
		<-ctx.Done()
		return nil
	}
	self := Self{Identity: p.Identity(), Priority: p.options.Priority, Shares: p.options.Tie == Share}
	if p.options.Tie == Elect {
		self.Candidate = time.Now()
	}
	p.log.Info("Looking for peers", "identity", self.Identity, "priority", self.Priority)
	if self.Identity == "" {
		p.log.Info("The identity is empty, so other operators with an empty identity are not noticed; set the variable", "variable", podID)
	}
	defer p.deleteMetrics()
	var running sync.WaitGroup
	for _, group := range groups {
		running.Go(func() { p.discover(ctx, group, self) })
	}
	running.Wait()
	return nil
}

func (p *Peering) markStarted(ctx context.Context) error {
	p.reportMu.Lock()
	defer p.reportMu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done != nil {
		return errors.New("the peering was already started: create a new one")
	}
	p.done = ctx.Done()
	for namespace := range p.states {
		p.states[namespace] = p.computeState(namespace)
	}
	return nil
}
