package namespaces

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// Part enters and leaves the namespaces of an operator. With a nil Part, the operator handles whatever namespaces its cache has.
type Part struct {
	manager manager.Manager
	engines *operator.Set[*engine.Engine]
	reader  func(context.Context) cache.Options // returns the options for the cache of Namespaces
	isNew   func()                              // called when the operator enters namespaces
	match   func(*corev1.Namespace) bool        // nil without WithNamespaceFunc
	changed chan struct{}                       // patterns or Namespaces have changed
	units   *operator.Units[string]             // namespaces being entered, handled or left
	entered *operator.Gate                      // opens once the caches of the first namespaces have synced
	log     logr.Logger                         // set by Run

	mu       sync.RWMutex
	patterns []watching.NamespacePattern
	caches   []*watching.NamespacedCache
	warned   bool // the warning about too many watches was logged

	objects toolscache.Store // the Namespaces; nil if the operator does not watch Namespaces
	synced  func() bool      // reports whether objects is complete
	denied  error            // why Namespaces cannot be listed or watched
	running bool
	decided bool // the first namespaces are known
}

const firstNamespaces = "namespaces"

// New returns a part that has no namespaces yet.
func New(mgr manager.Manager, engines *operator.Set[*engine.Engine]) *Part {
	n := &Part{manager: mgr, engines: engines, changed: make(chan struct{}, 1)}
	n.Reset()
	n.units = operator.NewUnits[string](metrics.NewNamespaceCount(), n.notifyChanged)
	return n
}

// Reset makes the part wait for its first namespaces again. Don't call it while the part runs.
func (n *Part) Reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decided = false
	n.entered = operator.NewGate("timed out waiting for the caches of the first namespaces: check that the API server answers lists of Namespaces and of the kinds in them",
		firstNamespaces)
}

// SetPatterns sets the namespace patterns. It is safe for concurrent use.
func (n *Part) SetPatterns(patterns []watching.NamespacePattern) {
	n.mu.Lock()
	n.patterns = patterns
	n.mu.Unlock()
	n.notifyChanged()
}

// SetFunc sets a function that selects Namespaces. It must be called before [Part.Run].
func (n *Part) SetFunc(match func(*corev1.Namespace) bool) { n.match = match }

// Entered returns a gate that opens once the caches of the first namespaces have synced.
func (n *Part) Entered() *operator.Gate {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.entered
}

// InScope implements engine.Scope. Cluster-scoped objects, whose namespace is empty, are always in scope.
func (n *Part) InScope(key types.NamespacedName) bool {
	phase, known := n.units.Phase(key.Namespace)
	return key.Namespace == "" || known && phase != operator.Leaving
}

// Admits implements engine.Scope. It returns false until the namespace's caches have synced.
func (n *Part) Admits(key types.NamespacedName) bool {
	phase, known := n.units.Phase(key.Namespace)
	return !known || phase != operator.Starting
}

func (n *Part) notifyChanged() {
	select {
	case n.changed <- struct{}{}:
	default: // Run has not received the previous change yet
	}
}

// NewCache returns a cache for the part's namespaces. The part adds namespaces to it and removes them until stop is called.
func (n *Part) NewCache(ctx context.Context, options cache.Options) (objects cache.Cache, stop func(), err error) {
	c, err := watching.NewNamespacedCache(n.manager.GetConfig(), options)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	n.caches = append(slices.Clone(n.caches), c)
	n.mu.Unlock()
	stop = func() {
		c.Close()
		n.mu.Lock()
		defer n.mu.Unlock()
		n.caches = slices.DeleteFunc(slices.Clone(n.caches), func(one *watching.NamespacedCache) bool { return one == c })
	}
	for _, namespace := range n.Names() {
		if err := c.Add(ctx, namespace); err != nil {
			stop()
			return nil, nil, err
		}
		if phase, known := n.units.Phase(namespace); !known || phase == operator.Leaving {
			c.Remove(namespace) // meanwhile the operator has left the namespace
		}
	}
	return c, stop, nil
}

// Names returns the namespaces that the operator enters or handles.
func (n *Part) Names() (names []string) {
	if n == nil {
		return nil
	}
	for namespace, unit := range n.units.All() {
		if unit.Phase != operator.Leaving {
			names = append(names, namespace)
		}
	}
	slices.Sort(names)
	return names
}

// namespaceRetryInterval is how long the operator waits before it retries a namespace whose caches couldn't be created.
const namespaceRetryInterval = 10 * time.Second

// Run enters and leaves namespaces until the context is cancelled. entered is called whenever the operator enters namespaces. reader
// returns the options for the cache of Namespaces.
func (n *Part) Run(ctx context.Context, log logr.Logger, entered func(), reader func(context.Context) cache.Options) error {
	n.log, n.isNew, n.reader = log, entered, reader
	n.Begin()
	defer n.end()
	var group sync.WaitGroup // waited for after the units
	defer group.Wait()
	defer n.units.Wait()
	observing := false
	for {
		n.mu.RLock()
		needsObjects := n.needsObjects()
		n.mu.RUnlock()
		if !observing && needsObjects {
			stop, err := n.observe(ctx)
			if err != nil {
				return err
			}
			defer stop()
			observing = true
		}
		if desired, known := n.desired(); known {
			n.adjust(ctx, &group, desired)
		}
		select {
		case <-n.changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// Begin makes the part report as not ready until it has entered its first namespaces, or Run returns.
func (n *Part) Begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = true
}

func (n *Part) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.running = false
}

// needsObjects reports whether the part depends on which Namespaces exist. The caller must hold the lock.
func (n *Part) needsObjects() bool {
	return n.match != nil || slices.ContainsFunc(n.patterns, func(p watching.NamespacePattern) bool {
		_, exact := p.Exact()
		return !exact
	})
}

// observe watches Namespaces until stop is called.
func (n *Part) observe(ctx context.Context) (stop func(), err error) {
	options := n.reader(ctx)
	options.ByObject, options.DefaultNamespaces, options.DefaultLabelSelector, options.DefaultFieldSelector = nil, nil, nil, nil
	options.DefaultWatchErrorHandler = func(ctx context.Context, r *toolscache.Reflector, err error) {
		if !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
			toolscache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		n.mu.Lock()
		isNew := n.denied == nil
		n.denied = err
		n.mu.Unlock()
		if isNew {
			n.log.Info("Listing or watching Namespaces is forbidden; changes of Namespaces go unnoticed, or only namespaces that are named without wildcards are handled",
				"error", err.Error())
			n.notifyChanged()
		}
	}
	objects, err := cache.New(n.manager.GetConfig(), options)
	if err != nil {
		return nil, fmt.Errorf("watching the Namespaces: %w", err)
	}
	informer, err := objects.GetInformer(ctx, &corev1.Namespace{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching the Namespaces: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { n.notifyChanged() }, UpdateFunc: func(any, any) { n.notifyChanged() }, DeleteFunc: func(any) { n.notifyChanged() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching the Namespaces: %w", err)
	}
	store, ok := informer.(interface{ GetStore() toolscache.Store })
	if !ok {
		return nil, fmt.Errorf("watching the Namespaces: the informer %T has no store: leave NewInformer of the cache options out", informer)
	}
	n.mu.Lock()
	n.objects, n.synced = store.GetStore(), registration.HasSynced
	n.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := objects.Start(ctx); err != nil {
			n.log.Error(err, "The cache of the Namespaces has failed")
		}
	})
	ended.Go(func() {
		if objects.WaitForCacheSync(ctx) {
			toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
			n.notifyChanged()
		}
	})
	return func() { cancel(); ended.Wait() }, nil
}

// desired returns the namespaces that the operator should handle, or false if they aren't known yet.
func (n *Part) desired() (names map[string]bool, known bool) {
	n.mu.RLock()
	patterns, objects, needsObjects, denied := n.patterns, n.objects, n.needsObjects(), n.denied
	isSynced := n.synced != nil && n.synced()
	n.mu.RUnlock()
	names = map[string]bool{}
	switch {
	case !needsObjects, denied != nil && !isSynced && n.match == nil:
		for _, p := range patterns {
			if name, exact := p.Exact(); exact {
				names[name] = true
			}
		}
		return names, true
	case denied != nil && !isSynced:
		return names, true // without the Namespaces, the function cannot select any
	case !isSynced:
		return nil, false
	}
	for _, obj := range objects.List() {
		if ns, ok := obj.(*corev1.Namespace); ok && n.selects(patterns, ns) && !isTerminated(ns) {
			names[ns.Name] = true
		}
	}
	return names, true
}

// exists reports whether a namespace exists. A namespace that is being deleted and holds no more objects doesn't count. If the operator
// hasn't listed the Namespaces, exists returns true.
func (n *Part) exists(namespace string) bool {
	n.mu.RLock()
	objects, isSynced := n.objects, n.synced != nil && n.synced()
	n.mu.RUnlock()
	if !isSynced {
		return true
	}
	obj, found, err := objects.GetByKey(namespace)
	if err != nil || !found {
		return err != nil
	}
	ns, ok := obj.(*corev1.Namespace)
	return !ok || !isTerminated(ns)
}

// Selects reports whether the patterns and the function select a namespace.
func (n *Part) Selects(ns *corev1.Namespace) bool {
	n.mu.RLock()
	patterns := n.patterns
	n.mu.RUnlock()
	return n.selects(patterns, ns)
}

func (n *Part) selects(patterns []watching.NamespacePattern, ns *corev1.Namespace) bool {
	if len(patterns) > 0 && !slices.ContainsFunc(patterns, func(p watching.NamespacePattern) bool { return p.Match(ns.Name) }) {
		return false
	}
	if n.match == nil {
		return true
	}
	selected := false
	err := guard.Call("WithNamespaceFunc", func() error { selected = n.match(ns.DeepCopy()); return nil })
	if err != nil {
		n.log.Error(err, "The function of WithNamespaceFunc panicked; the namespace is not handled", "namespace", ns.Name, "stack", guard.Trace(err))
	}
	return selected && err == nil
}

// isTerminated reports whether a namespace is being deleted and holds no more objects. Until then, the operator may have to remove
// finalizers in it.
func isTerminated(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil && len(ns.Status.Conditions) > 0 &&
		!slices.ContainsFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Status == corev1.ConditionTrue })
}

// NotReady returns why the operator doesn't handle its namespaces yet. A replica that is waiting for leadership is not expected to handle
// any.
func (n *Part) NotReady() (errs []error) {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.running {
		return nil
	}
	if n.match != nil && n.denied != nil && (n.synced == nil || !n.synced()) {
		return append(errs, fmt.Errorf("the operator may not list Namespaces: %w", n.denied))
	}
	if !n.decided {
		return append(errs, errors.New("the operator has not listed the Namespaces yet"))
	}
	units := n.units.All()
	for _, namespace := range slices.Sorted(maps.Keys(units)) {
		if units[namespace].Phase == operator.Starting {
			errs = append(errs, fmt.Errorf("the caches of namespace %q have not synced yet", namespace))
		}
	}
	return errs
}

// Handles reports whether a namespace's caches have synced and the operator handles its objects.
func (n *Part) Handles(namespace string) bool {
	phase, known := n.units.Phase(namespace)
	return known && phase == operator.Serving
}

// Exact returns the patterns if all of them are plain names, otherwise nil.
func (n *Part) Exact() (names []string) {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.needsObjects() {
		return nil
	}
	for _, p := range n.patterns {
		name, _ := p.Exact()
		names = append(names, name)
	}
	return names
}

// Rights returns the permission to watch Namespaces, if the operator needs it.
func (n *Part) Rights(string) []rbac.Need {
	if n == nil {
		return nil
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.needsObjects() {
		return nil
	}
	return []rbac.Need{{Resource: "namespaces", Verbs: []string{"list", "watch"}, Level: rbac.Needed, Reason: "the namespaces that the operator selects"}}
}
