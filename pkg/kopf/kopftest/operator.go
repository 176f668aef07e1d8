package kopftest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// An Operator is one that a test runs, in its own process, with a manager of its own.
type Operator struct {
	cluster          *Cluster
	connection       *connection
	tracker          *tracker
	manager          manager.Manager
	admissionManager *admissionManager // nil: its admission handlers are not, or as the test says
	stop             func()
	ended            chan struct{}
	err              error // when it has ended

	stopping    atomic.Bool
	unstoppable string // what has not ended with it
}

// Run starts an operator with these resources and options, and stops it when the test ends. It fails the test if the declaration
// has mistakes, or if the operator ends by itself.
//
// The server of an [Environment] calls the operator's admission handlers, for objects in the namespace of the cluster and for those without
// namespaces, from a moment after the start on: see [Operator.RunUntilQuiet]. What the test has for [kopf.WithWebhooks] is for
// production then, and only checked. In memory nothing calls them: see [Admit].
//
// Resources are declared for one operator: declare them anew for each.
func (c *Cluster) Run(t testing.TB, opts ...kopf.Option) *Operator {
	t.Helper()
	return c.RunManager(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, opts...) })
}

// RunManager is like [Cluster.Run] for what is set up with a manager: the same function as in main.go, say. The functions change
// the options of the manager before it is made: its Cache.ByObject, for example. One that sets the WebhookServer has
// admission handlers served as [kopf.WithWebhooks] says; it is needed for those that are set up by package webhooks, or by controller-runtime.
func (c *Cluster) RunManager(t testing.TB, setup func(manager.Manager) error, change ...func(*manager.Options)) *Operator {
	t.Helper()
	o := c.operator(nil)
	o.start(t, setup, testLogger(t), change...)
	t.Cleanup(func() { o.Stop(t) })
	return o
}

func (c *Cluster) operator(faults []Fault) *Operator {
	o := &Operator{cluster: c, connection: &connection{}, tracker: newTracker()}
	o.InjectFaults(faults...)
	return o
}

func (o *Operator) start(t testing.TB, setup func(manager.Manager) error, logger logr.Logger, change ...func(*manager.Options)) {
	t.Helper()
	if inBubble() {
		o.tracker.onRunaway = func() { o.stop() }
	}
	options := manager.Options{
		Scheme: o.cluster.Scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"},
		Controller:  config.Controller{SkipNameValidation: new(true)}, // a test may run several operators in its process
		BaseContext: func() context.Context { return testhook.WithObserver(context.Background(), o.tracker) },
	}
	if ns := o.cluster.Namespace; ns != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{ns: {}}
	}
	for _, f := range change {
		f(&options)
	}
	withAdmission, release := o.prepareAdmission(t, &options)
	mgr, err := manager.New(o.cluster.configFor(o.connection), options)
	if err == nil {
		err = setup(withAdmission(mgr))
	}
	if err != nil {
		release()
		t.Fatalf("kopftest: setting up the operator: %v", err)
	}
	// The test's own context would end the operator in the middle of what a cleanup function still wants of it.
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	o.manager, o.ended = mgr, make(chan struct{})
	o.stop = func() {
		o.stopping.Store(true)
		stop()
	}
	go func() {
		defer close(o.ended)
		defer release()
		o.err = mgr.Start(ctx)
		mgr.GetHTTPClient().CloseIdleConnections()
	}()
}

// Stop ends the operator as a signal does, and waits for its end. It fails the test if that is not a good one, or if a handler
// has not ended then: it does not look at its context. Stopping it twice is no mistake.
func (o *Operator) Stop(t testing.TB) {
	t.Helper()
	if err := o.end(); err != nil {
		t.Errorf("kopftest: %v", err)
	}
}

func (o *Operator) end() error {
	o.stop()
	ended := o.awaitEnd(stopTimeout)
	if unstoppable := o.tracker.runningCalls(); len(unstoppable) > 0 {
		o.unstoppable = fmt.Sprintf("the operator was told to stop, and %s did not end: pass its context on to all that waits, and look at it in loops", unstoppable[0])
		o.awaitUnstoppable()
		return errors.New(o.unstoppable)
	}
	if !ended {
		return fmt.Errorf("the operator still runs %s after it was told to stop", stopTimeout)
	}
	if away := o.tracker.runawayReason(); away != "" {
		return errors.New(away)
	}
	if o.err != nil && !o.connection.disconnected() {
		return fmt.Errorf("the operator has ended with: %w", o.err)
	}
	return nil
}

// awaitUnstoppable waits in a bubble for handlers that do not look at their contexts: the bubble cannot end before they do. Those that
// never end would have the test hang without a word.
func (o *Operator) awaitUnstoppable() {
	if !inBubble() {
		return
	}
	for range unstoppableMinutes {
		if len(o.tracker.runningCalls()) == 0 {
			return
		}
		<-time.After(time.Minute)
	}
	panic(fmt.Sprintf("kopftest: the operator was told to stop, and %s has not ended %d hours later: it does not look at its context", o.tracker.runningCalls()[0], unstoppableMinutes/60))
}

// unstoppableMinutes is how long, in minutes of virtual time.
const unstoppableMinutes = 48 * 60

// Crash ends the operator as the death of its process does: nothing of what it still does reaches the server. The handlers
// that are at work are told to end, as they cannot be killed; what they do outside of the cluster is up to them.
func (o *Operator) Crash(t testing.TB) {
	t.Helper()
	o.connection.disconnect()
	o.Stop(t)
}

// stopTimeout is longer than the time that a manager allows.
const stopTimeout = time.Minute

func (o *Operator) awaitEnd(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-o.ended:
		return true
	case <-timer.C:
		return false
	}
}

// InjectFaults adds faults to what the operator asks of the server from now on: see [Fault].
func (o *Operator) InjectFaults(faults ...Fault) {
	o.connection.mu.Lock()
	defer o.connection.mu.Unlock()
	for _, f := range faults {
		o.connection.faults = append(o.connection.faults, &f)
	}
}

// Calls are the calls of handlers until now, in the order in which they began.
func (o *Operator) Calls() []Call { return o.tracker.callLog() }

// Handlers are the ids of the handlers that were called for an object, in order: for the one with its uid, or, if it has none as it was not read
// from the cluster, for those of its kind and name.
func (o *Operator) Handlers(obj client.Object) (ids []string) {
	named := obj.DeepCopyObject().(client.Object)
	o.cluster.setDefaultNamespace(named)
	gvk, _ := o.cluster.Client.GroupVersionKindFor(obj) // of an unknown kind there are no calls
	for _, call := range o.Calls() {
		if call.UID == obj.GetUID() || obj.GetUID() == "" && call.Kind == gvk.Kind && call.Object == client.ObjectKeyFromObject(named) {
			ids = append(ids, call.Handler)
		}
	}
	return ids
}

// Writes are the requests until now that were to change something, but for those that post Events, and those that have admission
// handlers served.
func (o *Operator) Writes() []Write { return o.connection.writes() }

// Events are those that were posted until now, also by the operator itself, such as HandlerFailed.
func (o *Operator) Events() []Event { return o.connection.postedEvents() }

// testLogger logs to the test for as long as that runs: to log later is a panic.
func testLogger(t testing.TB) logr.Logger {
	var mu sync.Mutex
	over := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	})
	return funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Log(args)
		}
	}, funcr.Options{})
}
