package namespaces

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// A batch is a group of namespaces that the operator enters together. No handlers are called in them before the caches of all have synced,
// because the indexes would be incomplete.
type batch struct {
	mu      sync.Mutex
	waiting int
	ready   chan struct{}
}

func (b *batch) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting++
}

func (b *batch) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting--; b.waiting == 0 {
		close(b.ready)
	}
}

// adjust starts to enter the desired namespaces and to leave all others. If a desired namespace is still being left, it is entered
// afterwards.
func (n *Part) adjust(ctx context.Context, group *sync.WaitGroup, desired map[string]bool) {
	n.units.Stop(func(namespace string) bool { return desired[namespace] })
	together := &batch{waiting: 1, ready: make(chan struct{})} // the extra one is for this function, until it has added all namespaces
	isNew := false
	for namespace := range desired {
		together.add()
		if n.units.Start(ctx, namespace, func(wanted context.Context) error { n.serve(ctx, wanted, namespace, together); return nil }) {
			isNew = true
		} else {
			together.done()
		}
	}
	together.done()
	number := len(n.units.All())
	n.mu.Lock()
	n.decided = true
	watches := number * len(n.engines.All())
	warns := watches > maxWatches && !n.warned
	n.warned = n.warned || warns
	n.mu.Unlock()
	if warns {
		n.log.Info("The operator has many watches, one for each kind and namespace; without WithNamespaces, it needs one for each kind",
			"watches", watches)
	}
	if number == 0 {
		n.Entered().Complete(firstNamespaces)
	}
	if isNew {
		n.isNew()
		group.Go(func() {
			select {
			case <-together.ready:
				n.Entered().Complete(firstNamespaces)
			case <-ctx.Done():
			}
		})
	}
}

// maxWatches is the number of watches above which the operator logs a warning.
const maxWatches = 500

// serve enters a namespace, waits until it is no longer desired, and leaves it. The context desired is cancelled when the namespace is no
// longer desired.
func (n *Part) serve(ctx, desired context.Context, namespace string, together *batch) {
	if n.enter(desired, namespace, together) {
		n.units.Set(namespace, operator.Serving)
		n.log.Info("Handling the namespace", "namespace", namespace)
		for _, e := range n.engines.All() {
			e.Admitted(namespace)
		}
	}
	<-desired.Done()
	if ctx.Err() != nil {
		return // the operator is stopping
	}
	if !n.exists(namespace) {
		n.awaitDeletions(ctx, namespace)
	}
	n.units.Set(namespace, operator.Leaving)
	n.leave(ctx, namespace)
}

// enter starts to watch a namespace, and waits until the caches of the whole batch have synced. It returns false if the namespace is no
// longer desired.
func (n *Part) enter(ctx context.Context, namespace string, together *batch) bool {
	ready := sync.OnceFunc(together.done)
	defer ready()
	for {
		err := n.addToCaches(ctx, namespace)
		if err == nil || ctx.Err() != nil {
			break
		}
		n.log.Error(err, "Failed to watch a namespace; retrying", "namespace", namespace)
		ready() // the rest of the batch shouldn't wait
		select {
		case <-time.After(namespaceRetryInterval):
		case <-ctx.Done():
		}
	}
	n.waitForCaches(ctx, namespace)
	ready()
	select {
	case <-together.ready:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// awaitDeletions waits until the engines have seen all objects in a deleted namespace being deleted, because the deletion of the Namespace
// itself may be observed first.
func (n *Part) awaitDeletions(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, deletionsTimeout)
	defer cancel()
	for _, e := range n.engines.All() {
		for ctx.Err() == nil && e.Knows(isIn(namespace)) {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
}

// deletionsTimeout limits how long awaitDeletions waits.
const deletionsTimeout = 10 * time.Second

func isIn(namespace string) func(types.NamespacedName) bool {
	return func(key types.NamespacedName) bool { return key.Namespace == namespace }
}

func (n *Part) addToCaches(ctx context.Context, namespace string) error {
	for _, e := range n.engines.All() {
		if !e.Namespaced {
			continue
		}
		version, err := operator.VersionOf(ctx, n.manager.GetAPIReader(), e, namespace)
		if err != nil && !apierrors.IsForbidden(err) && ctx.Err() == nil {
			n.log.Info("Failed to read the current version of the kind; each object with due work is read once from the API server",
				"kind", e.GVK.Kind, "namespace", namespace, "error", err.Error())
		}
		e.Entered(namespace, version)
	}
	n.mu.RLock()
	caches := n.caches
	n.mu.RUnlock()
	for _, c := range caches {
		if err := c.Add(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

// waitForCaches waits until both the caches and the indexes contain a namespace's objects.
func (n *Part) waitForCaches(ctx context.Context, namespace string) {
	n.mu.RLock()
	caches := n.caches
	n.mu.RUnlock()
	for _, c := range caches {
		denied, err := c.WaitForNamespace(ctx, namespace)
		if denied != nil {
			n.log.Info("Listing some kinds in a namespace is forbidden; their objects are not handled", "namespace", namespace, "error", denied.Error())
		}
		if err != nil && ctx.Err() == nil {
			n.log.V(1).Info("Stopped waiting for the objects of a namespace", "namespace", namespace, "error", err.Error())
		}
	}
	for _, e := range n.engines.All() {
		if e.Namespaced && len(e.Indexes.IDs()) > 0 && ctx.Err() == nil {
			operator.AwaitEpoch(ctx, n.log, e, namespace)
		}
	}
}

// leave waits until all work in a namespace is finished, and removes the namespace from the caches.
func (n *Part) leave(ctx context.Context, namespace string) {
	engines := n.engines.All()
	for _, e := range engines {
		if err := e.Quiesce(ctx, isIn(namespace)); err != nil {
			return // the operator is stopping
		}
	}
	n.mu.RLock()
	caches := n.caches
	n.mu.RUnlock()
	for _, c := range caches {
		c.Remove(namespace)
	}
	for _, e := range engines {
		e.Left(namespace)
	}
	n.log.Info("The namespace is no longer handled", "namespace", namespace)
}
