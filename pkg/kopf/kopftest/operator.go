package kopftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// An Operator is an operator under test. It runs in the test's process, with its own manager.
type Operator struct {
	cluster          *Cluster
	connection       *connection
	tracker          *tracker
	manager          manager.Manager
	admissionManager *admissionManager // nil if package kopftest doesn't serve admission handlers
	stop             func()
	ended            chan struct{}
	err              error // the manager's error, after it has returned

	virtual     bool // whether the operator runs in a bubble of testing/synctest
	stopping    atomic.Bool
	unstoppable string // message about a handler that didn't return when its context was cancelled
}

// Run starts an operator with these resources and options, and stops it when the test ends. It fails the test if the declaration is invalid
// or if the operator returns an error. Each operator needs its own resources.
//
// On an [Environment], the API server calls the operator's admission handlers for objects in the cluster's namespace and for cluster-scoped
// objects. [Operator.RunUntilQuiet] waits until the handlers are registered. The options in [kopf.WithWebhooks] are validated but not used.
// In memory, admission handlers aren't called, so test them with [Admit].
func (c *Cluster) Run(t testing.TB, opts ...kopf.Option) *Operator {
	t.Helper()
	return c.RunManager(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, opts...) })
}

// RunManager is [Cluster.Run] for an operator with its own setup function, such as the one in main.go. The functions in change modify the
// manager's options, for example Cache.ByObject. By default, NewCache is [kopf.NewCache]. If a function sets WebhookServer, the options of
// [kopf.WithWebhooks] apply to the admission handlers. Do this if setup also uses webhooks from package webhooks or from controller-runtime.
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
	o.virtual = o.virtual || inBubble()
	if o.virtual {
		o.tracker.onRunaway = func() { o.stop() }
	}
	options := manager.Options{
		Scheme: o.cluster.Scheme, Logger: logger, Metrics: server.Options{BindAddress: "0"},
		Controller:  config.Controller{SkipNameValidation: new(true)}, // a test may run several operators in one process
		BaseContext: func() context.Context { return testhook.WithObserver(context.Background(), o.tracker) },
	}
	if ns := o.cluster.Namespace; ns != "" {
		options.Cache.DefaultNamespaces = map[string]cache.Config{ns: {}}
	}
	for _, f := range change {
		f(&options)
	}
	if o.virtual && options.Cache.NewInformer == nil {
		options.Cache.NewInformer = watching.NewDrainedInformer
	}
	if options.NewCache == nil {
		options.NewCache = kopf.NewCache
	}
	o.tracker.cacheOptions, o.tracker.inMemory = &options.Cache, o.cluster.server != nil
	withAdmission, release := o.prepareAdmission(t, &options)
	mgr, err := manager.New(o.cluster.configFor(o.connection), options)
	if err == nil {
		err = setup(withAdmission(mgr))
	}
	if err != nil {
		release()
		t.Fatalf("kopftest: set up the operator: %v", err)
	}
	// The test's context is cancelled before its cleanup functions run, but those may still need the operator.
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

// Stop stops the operator as a signal would, and waits until it has returned. It fails the test if the operator returns an error, or if a
// handler doesn't return when its context is cancelled. Stop can be called several times.
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
		o.unstoppable = fmt.Sprintf("%s did not return after the operator was stopped: pass its context to all blocking calls, and check it in loops", unstoppable[0])
		o.awaitUnstoppable()
		return errors.New(o.unstoppable)
	}
	if !ended {
		return fmt.Errorf("the operator is still running %s after it was stopped", stopTimeout)
	}
	if away := o.tracker.runawayReason(); away != "" {
		return errors.New(away)
	}
	if o.err != nil && !o.connection.disconnected() {
		return fmt.Errorf("the operator ended with an error: %w", o.err)
	}
	return nil
}

// awaitUnstoppable waits for handlers that ignore their contexts, because a bubble can't finish before them. It panics if they don't return
// within unstoppableMinutes, so that the test doesn't hang.
func (o *Operator) awaitUnstoppable() {
	if !o.virtual {
		return
	}
	for range unstoppableMinutes {
		if len(o.tracker.runningCalls()) == 0 {
			return
		}
		<-time.After(time.Minute)
	}
	panic(fmt.Sprintf("kopftest: %s has not returned %d hours after the operator was stopped: it ignores its context", o.tracker.runningCalls()[0], unstoppableMinutes/60))
}

// unstoppableMinutes is the timeout of awaitUnstoppable, in minutes of virtual time.
const unstoppableMinutes = 48 * 60

// Crash stops the operator as if its process had died: no further request reaches the server. Go can't kill the running handlers, so Crash
// cancels their contexts. They can still have effects outside of the cluster.
func (o *Operator) Crash(t testing.TB) {
	t.Helper()
	o.connection.disconnect()
	o.Stop(t)
}

// stopTimeout is longer than a manager's graceful shutdown timeout.
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

// InjectFaults adds faults for the operator's later requests.
func (o *Operator) InjectFaults(faults ...Fault) {
	o.connection.mu.Lock()
	defer o.connection.mu.Unlock()
	for _, f := range faults {
		o.connection.faults = append(o.connection.faults, &f)
	}
}

// Calls returns the handler calls so far in the order in which they started. With reasons, it only returns the calls with one of them, for
// example to leave out index functions and timers, which are called often:
//
//	operator.Calls(kopf.ReasonCreate, kopf.ReasonUpdate)
func (o *Operator) Calls(reasons ...kopf.Reason) []Call {
	return withReasons(o.tracker.callLog(), reasons)
}

// withReasons returns the calls with one of the reasons, or all calls if reasons is empty.
func withReasons(calls []Call, reasons []kopf.Reason) []Call {
	if len(reasons) == 0 {
		return calls
	}
	return slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return !slices.Contains(reasons, c.Reason) })
}

// Handlers returns the ids of the handlers that were called for an object, in order. It finds the calls by the uid of obj or, if obj has no
// uid, by kind, namespace and name. With reasons, it only includes calls with one of them.
func (o *Operator) Handlers(obj client.Object, reasons ...kopf.Reason) (ids []string) {
	named := obj.DeepCopyObject().(client.Object)
	o.cluster.setDefaultNamespace(named)
	gvk, _ := o.cluster.Client.GroupVersionKindFor(obj) // an unknown kind has no calls
	for _, call := range o.Calls(reasons...) {
		if call.UID == obj.GetUID() || obj.GetUID() == "" && call.Kind == gvk.Kind && call.Object == client.ObjectKeyFromObject(named) {
			ids = append(ids, call.Handler)
		}
	}
	return ids
}

// Writes returns the operator's writes so far, except for Events and for the registration of admission handlers.
func (o *Operator) Writes() []Write { return o.connection.writes() }

// Events returns the Events created so far, including the operator's own, such as HandlerFailed.
func (o *Operator) Events() []Event { return o.connection.postedEvents() }

// testLogger returns a logger that writes to the test's log. It drops messages after the end of the test, because t.Log would panic.
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
