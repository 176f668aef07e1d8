package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// These constants control how often the operator discovers the served kinds.
const (
	discoveryInterval       = time.Minute
	discoveryIntervalNoCRDs = 10 * time.Second // if the operator may not watch CustomResourceDefinitions
)

// discoveryDelays are the delays between discoveries after a watch event for a CustomResourceDefinition. After a definition changes, the
// API server can take a few seconds to start or stop serving the kind.
var discoveryDelays = []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}

// Dynamic starts a kind's controller when the API server serves the kind, and stops it when the API server no longer does. Once Run
// has started, only its goroutine may change the fields, or read selected, reported and crdsKnown.
type Dynamic struct {
	runtime   *Runtime
	settings  engine.Settings
	discovery discovery.ServerResourcesInterfaceWithContext
	fixed     map[schema.GroupKind]bool // kinds that the API server must serve at the start
	indexes   *operator.Gate            // gate of the fixed kinds
	declared  []Kind                    // kinds of WhenServed
	selectors []Selector                // declarations of ForKinds
	selected  map[selectedKind]*Kind    // kinds of ForKinds; nil for an invalid declaration
	reported  map[string]bool           // messages that applied at the last discovery; they aren't logged again
	crdsKnown bool                      // the operator receives events of CustomResourceDefinitions
	warms     bool                      // only fill caches and indexes, because the replica waits for leadership
}

// A Selector picks kinds from the served ones and declares them.
type Selector interface {
	// Choose returns the selected kinds. problems are ambiguous patterns, and panics in the user's function.
	Choose(served []watching.Resource) (kinds []watching.Resource, problems []error)
	// Declare returns the declaration of a selected kind.
	Declare(watching.Resource) (*Kind, error)
	String() string
}

type selectedKind struct {
	selector Selector
	gvk      schema.GroupVersionKind
}

// NewDynamic returns the kinds that come and go: those of WhenServed and those of the selectors. It returns nil if the operator has only
// fixed kinds, which the API server must serve.
func (r *Runtime) NewDynamic(settings engine.Settings, fixed, declared []Kind, selectors []Selector) (*Dynamic, error) {
	if !r.HasDynamicKinds {
		return nil, nil
	}
	discovery, err := discovery.NewDiscoveryClientForConfigAndClient(r.Manager.GetConfig(), r.Manager.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("discovering the served kinds: %w", err)
	}
	d := &Dynamic{
		runtime: r, settings: settings, discovery: discovery, fixed: map[schema.GroupKind]bool{}, declared: declared, selectors: selectors,
		selected: map[selectedKind]*Kind{},
	}
	for _, kind := range fixed {
		d.fixed[kind.GVK.GroupKind()] = true
	}
	r.discovering.Store(true)
	return d, nil
}

// Run starts and stops kinds until the context is cancelled. Their workers wait for the gate of the fixed kinds' indexes.
func (d *Dynamic) Run(ctx context.Context, indexes *operator.Gate) error {
	d.indexes = indexes
	events := make(chan bool, 1)
	var group sync.WaitGroup
	group.Go(func() { d.watchDefinitions(ctx, events) })
	next, discovered := time.Now(), false
	var delays []time.Duration
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case d.crdsKnown = <-events:
			if d.crdsKnown {
				delays = discoveryDelays[1:]
				if soon := time.Now().Add(discoveryDelays[0]); soon.Before(next) {
					next = soon
				}
			}
		case <-d.runtime.ended:
			next = time.Now() // the kind may be served again
		case <-time.After(time.Until(next)):
			wait := discoveryIntervalNoCRDs // after a failed discovery
			if d.update(ctx) {
				if wait = d.interval(); !discovered {
					discovered = true
					d.runtime.discovering.Store(false)
					d.kindsChanged(ctx, -1) // see testhook.Observer.OperatorStarting
				}
			}
			if len(delays) > 0 {
				wait, delays = min(wait, delays[0]), delays[1:]
			}
			next = time.Now().Add(wait)
		}
	}
	d.runtime.Units.Wait()
	d.runtime.Units.SetWaiting(0)
	group.Wait()
	return nil
}

// interval returns how long to wait for the next discovery if there is no event.
func (d *Dynamic) interval() time.Duration {
	wait := discoveryIntervalNoCRDs
	if d.crdsKnown {
		wait = discoveryInterval
	}
	for _, unit := range d.runtime.Units.All() {
		if !unit.RetryAt.IsZero() {
			wait = min(wait, max(time.Until(unit.RetryAt), time.Second))
		}
	}
	return wait
}

// watchDefinitions sends true after an event of a CustomResourceDefinition, and false if the operator can't watch them. It returns when
// the context is cancelled. Sending never blocks: if the previous value hasn't been received yet, the new one is dropped.
func (d *Dynamic) watchDefinitions(ctx context.Context, events chan<- bool) {
	send := func(known bool) {
		select {
		case events <- known:
		default: // the previous value is still waiting
		}
	}
	direct, err := client.NewWithWatch(d.runtime.Manager.GetConfig(), client.Options{HTTPClient: d.runtime.Manager.GetHTTPClient(), Scheme: d.runtime.Manager.GetScheme(), Mapper: d.runtime.Manager.GetRESTMapper()})
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		definitions := &metav1.PartialObjectMetadataList{}
		definitions.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
		w, err := direct.Watch(ctx, definitions)
		if err == nil {
			for range w.ResultChan() {
				send(true)
			}
			w.Stop()
		} else if ctx.Err() == nil {
			d.log().V(1).Info("Failed to watch CustomResourceDefinitions; the operator polls the served kinds", "error", err.Error())
			send(false)
		}
		select {
		case <-ctx.Done():
		case <-time.After(discoveryIntervalNoCRDs):
		}
	}
}

func (d *Dynamic) log() logr.Logger { return d.settings.Log }

// update starts the kinds that the API server serves, and stops the others. It returns false if the discovery failed.
func (d *Dynamic) update(ctx context.Context) bool {
	served, failed, err := watching.Served(ctx, d.discovery)
	if err != nil {
		d.log().Info("Failed to discover the served kinds; retrying", "error", err.Error())
		return false
	}
	desired, unwatchable, waiting := d.desired(served)
	stopped := d.runtime.Units.Stop(func(gvk schema.GroupVersionKind) bool {
		_, unknown := failed[gvk.GroupVersion()]
		return desired[gvk] != nil || unknown || slices.Contains(unwatchable, gvk)
	})
	for _, gvk := range stopped {
		d.log().Info("The API server no longer serves the kind; its handlers stop", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
		if !d.warms {
			d.runtime.Goes(gvk)
		}
	}
	d.runtime.Units.SetWaiting(waiting)
	for _, gvk := range unwatchable {
		d.runtime.Units.Fail(gvk, errNotWatchable)
	}
	for gvk, declared := range desired {
		if !d.isRunning(gvk.GroupKind()) && !hasFailed(failed, gvk.Group) {
			d.start(ctx, *declared)
		}
	}
	return true
}

// isRunning reports whether a controller for any version of the kind is running or stopping. All versions of a kind have the same objects.
func (d *Dynamic) isRunning(kind schema.GroupKind) bool {
	for gvk, unit := range d.runtime.Units.All() {
		if unit.IsRunning && gvk.GroupKind() == kind {
			return true
		}
	}
	return false
}

// hasFailed reports whether the discovery of any version of the group failed. If so, we may not know a kind's preferred version.
func hasFailed(failed map[schema.GroupVersion]error, group string) bool {
	for gv := range failed {
		if gv.Group == group {
			return true
		}
	}
	return false
}

// desired returns the declared and selected kinds that are served, the declared kinds that are served but can't be watched, and the number
// of declarations that wait for a kind.
func (d *Dynamic) desired(served []watching.Resource) (desired map[schema.GroupVersionKind]*Kind, unwatchable []schema.GroupVersionKind, waiting int) {
	desired = map[schema.GroupVersionKind]*Kind{}
	watchable := map[schema.GroupVersionKind]bool{} // contains all served kinds
	for _, r := range served {
		watchable[r.GroupVersionKind] = r.IsWatchable()
	}
	claimed, messages := map[schema.GroupKind]bool{}, map[string]bool{}
	report := func(message string, keysAndValues ...any) { // logs a message unless the last discovery has reported it
		key := message + fmt.Sprint(keysAndValues...)
		if messages[key] = true; !d.reported[key] {
			d.log().Info(message, keysAndValues...)
		}
	}
	for kind := range d.fixed {
		claimed[kind] = true
	}
	for i, one := range d.declared {
		gvk := one.GVK
		claimed[gvk.GroupKind()] = true
		if can, isServed := watchable[gvk]; can {
			desired[gvk] = &d.declared[i]
		} else if isServed {
			unwatchable = append(unwatchable, gvk)
			report("The API server cannot list or watch the kind; its objects are not handled", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
		} else {
			waiting++
			report("Waiting until the API server serves the kind", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String())
		}
	}
	for _, s := range d.selectors {
		kinds, problems := s.Choose(served)
		for _, err := range problems {
			key := err.Error()
			if messages[key] = true; d.reported[key] {
				continue
			}
			if trace := guard.Trace(err); trace != "" {
				d.log().Error(err, "The function passed to KindsFunc panicked; the kind is not selected", "stack", trace)
			} else {
				d.log().Info("A pattern is ambiguous; it selects no kind", "error", key)
			}
		}
		if len(kinds) == 0 {
			waiting++
			report("Waiting until the API server serves a matching kind", "kinds", s.String())
		}
		for _, r := range kinds {
			gvk := r.GroupVersionKind
			if claimed[gvk.GroupKind()] {
				report("Two declarations are for the same kind; only the first one applies", "kind", gvk.Kind, "apiVersion", gvk.GroupVersion().String(),
					"ignored", s.String())
				continue
			}
			claimed[gvk.GroupKind()] = true
			if one := d.declare(s, r); one != nil {
				desired[gvk] = one
			}
		}
	}
	d.reported = messages
	return desired, unwatchable, waiting
}

// declare returns the declaration of a selected kind, or nil if it is invalid. The function passed to ForKinds is called only once per kind.
func (d *Dynamic) declare(s Selector, r watching.Resource) *Kind {
	key := selectedKind{s, r.GroupVersionKind}
	if one, known := d.selected[key]; known {
		return one
	}
	one, err := s.Declare(r)
	if err != nil {
		guard.WithStack(d.log(), err).Error(err, "The declaration of a kind is invalid; its objects are not handled", "kind", r.Kind, "apiVersion", r.GroupVersion().String())
		one = nil
	}
	d.selected[key] = one
	return one
}

// start starts a kind's controller, unless it failed recently.
func (d *Dynamic) start(ctx context.Context, one Kind) {
	d.kindsChanged(ctx, 1) // must happen before this function returns
	started := d.runtime.Units.Start(ctx, one.GVK, func(ctx context.Context) error {
		defer d.kindsChanged(ctx, -1)
		err := d.runKind(ctx, one)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		d.log().Error(err, "The controller of a kind has failed; it will be started again", "kind", one.GVK.Kind, "apiVersion", one.GVK.GroupVersion().String(),
			"retryAfter", operator.RetryInterval.String())
		return err
	})
	if !started {
		d.kindsChanged(ctx, -1)
	}
}

// kindsChanged lets tests wait for the kinds of a running operator.
func (d *Dynamic) kindsChanged(ctx context.Context, by int) {
	if !d.warms {
		testhook.KindsChanged(ctx, by)
	}
}

// runKind handles the objects of a kind until the context is cancelled. The kind has its own cache, because the sources of a shared cache
// would wait for all its informers, and an informer without permissions never syncs.
func (d *Dynamic) runKind(ctx context.Context, one Kind) error {
	kinds := []Kind{one}
	if err := d.runtime.Discover(ctx, kinds); err != nil {
		return err
	}
	if !d.warms {
		d.runtime.Comes(kinds[0])
		release, err := d.runtime.Reserve(kinds)
		if err != nil {
			return err
		}
		defer release()
	}
	objects, releaseCache, err := d.runtime.newKindCache(ctx, &one)
	if err != nil {
		return err
	}
	defer releaseCache()
	defer kinds[0].ClearIndexes() // after the cache has stopped
	// The cache stops after the controller, and runKind waits for the cache's goroutines.
	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	var cacheEnded sync.WaitGroup
	defer cacheEnded.Wait()
	defer stopCache()
	cacheEnded.Go(func() {
		if err := objects.Start(cacheCtx); err != nil {
			d.log().Error(err, "The cache of a kind has failed", "kind", one.GVK.Kind)
		}
	})
	defer d.runtime.Clients.Shared(d.runtime.Manager).UseCache(one.New(), objects)()
	defer one.Client.UseCache(one.New(), objects)()
	for _, c := range one.Related {
		defer one.Client.UseCache(c.watched(), objects)()
	}
	if d.warms {
		d.runtime.warm(ctx, &kinds[0], objects)
		return nil
	}
	settings := d.settings
	settings.Client = one.Client
	group := d.runtime.NewGroup(settings, objects, d.indexes, kinds, false)
	group.ownCache = true
	units, err := group.Units(ctx)
	if err != nil {
		return err
	}
	unit := units[0]
	d.log().Info("Watching the kind", "kind", one.GVK.Kind, "apiVersion", one.GVK.GroupVersion().String())
	remove := d.runtime.Engines.Add(unit.engine)
	defer testhook.EnginesEnded(ctx, []*engine.Engine{unit.engine})
	defer remove()
	for _, namespace := range d.runtime.PauseScopes() {
		unit.engine.PauseChanged(namespace) // the namespace may already be paused
	}
	return unit.Run(ctx)
}

// These errors say why a kind is not ready.
var (
	errStarting     = errors.New("the operator is starting: its caches have not synced yet")
	errNotSynced    = errors.New("the cache of the kind has not synced yet")
	errNotWatchable = errors.New("the API server cannot list or watch the kind: remove its declaration")
)

// NotReady says why kinds are not ready, sorted by kind.
func (r *Runtime) NotReady() (errs []error) {
	if r.isPreparing.Load() || r.discovering.Load() {
		return []error{errStarting}
	}
	units := r.Units.All()
	for _, gvk := range slices.SortedFunc(maps.Keys(units), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }) {
		switch unit := units[gvk]; unit.Phase {
		case operator.Starting:
			errs = append(errs, fmt.Errorf("%s: %w", gvk.Kind, errNotSynced))
		case operator.Failing:
			errs = append(errs, fmt.Errorf("%s: %w", gvk.Kind, unit.Err))
		default:
		}
	}
	return errs
}
