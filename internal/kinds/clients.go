package kinds

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// Clients are the clients of handlers that read from the operator's own caches.
type Clients struct {
	mu            sync.Mutex
	routed        *watching.Client         // reads each kind from the cache that contains it
	byDeclaration map[any]*watching.Client // those of kinds with their own caches
}

// Shared returns the client that all kinds share.
func (c *Clients) Shared(mgr manager.Manager) *watching.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routed == nil {
		c.routed = watching.NewClient(mgr.GetClient(), mgr.GetAPIReader(), mgr.GetScheme())
	}
	return c.routed
}

// NewForKind returns a client for a kind with its own cache, from which the client also reads the related kinds.
func (c *Clients) NewForKind(mgr manager.Manager) *watching.Client {
	return watching.NewClient(c.Shared(mgr), mgr.GetAPIReader(), mgr.GetScheme())
}

// Of returns the client for the declaration of a kind with its own cache. The declaration must be comparable.
func (c *Clients) Of(mgr manager.Manager, declaration any) *watching.Client {
	created := c.NewForKind(mgr)
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing, ok := c.byDeclaration[declaration]; ok {
		return existing
	}
	if c.byDeclaration == nil {
		c.byDeclaration = map[any]*watching.Client{}
	}
	c.byDeclaration[declaration] = created
	return created
}

// Client returns the client for handlers. If the operator has its own caches, the client reads from them whatever kinds they contain.
func (r *Runtime) Client() client.Client {
	if !r.HasDynamicKinds && !r.HasOwnCache() {
		return r.Manager.GetClient()
	}
	return r.Clients.Shared(r.Manager)
}
