package kopf

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/watching"
)

// clients are the clients of handlers that read from the operator's own caches.
type clients struct {
	mu         sync.Mutex
	routed     *watching.Client         // reads each kind from the cache that contains it
	byResource map[any]*watching.Client // of resources with WhenServed, by the identity of the resource
}

// shared returns the client that all kinds share.
func (c *clients) shared(mgr manager.Manager) *watching.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routed == nil {
		c.routed = watching.NewClient(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetScheme())
	}
	return c.routed
}

// newForKind returns a client for a kind with a cache of its own. The client also reads the related kinds from that cache.
func (c *clients) newForKind(mgr manager.Manager) *watching.Client {
	return watching.NewClient(c.shared(mgr), mgr.GetAPIReader(), mgr.GetScheme())
}

// of returns the client of a resource with WhenServed.
func (c *clients) of(mgr manager.Manager, r resource) *watching.Client {
	created := c.newForKind(mgr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.byResource[r.identity()]; ok {
		return existing
	}
	if c.byResource == nil {
		c.byResource = map[any]*watching.Client{}
	}
	c.byResource[r.identity()] = created
	return created
}

// client returns the client for handlers. If the operator has caches of its own, the client reads the kinds of these caches from them.
func (o *Operator) client() client.Client {
	if !o.hasDynamicKinds() && !o.hasOwnCache() {
		return o.mgr.GetClient()
	}
	return o.clients.shared(o.mgr)
}

// clientOf returns the client for the handlers of a resource.
func (o *Operator) clientOf(r resource) client.Client {
	if r.options().whenServed {
		return o.clients.of(o.mgr, r)
	}
	return o.client()
}

func (d *declared) hasDynamicKinds() bool {
	return len(d.selections) > 0 || slices.ContainsFunc(d.resources, func(r resource) bool { return r.options().whenServed })
}

// hasOwnCache reports whether the operator does not use the cache of the manager, whose namespaces and selectors are fixed.
func (o *Operator) hasOwnCache() bool {
	return o.namespaces != nil || o.watchSelector != nil || o.ring != nil
}
