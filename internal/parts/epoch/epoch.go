package epoch

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// Epoch compares a kind's cache with the start of the process. Its methods are safe for concurrent use.
type Epoch struct {
	// Version is the resource version when the process started. If it is empty, no state is trusted.
	Version string
	// Store returns the cache's store for a namespace, or nil if it is unknown.
	Store func(namespace string) toolscache.Store
	// Scoped is true if namespaces can come into scope later.
	Scoped bool
	// Selector selects the cached objects; nil selects all.
	Selector *client.ListOptions
	// Reader reads from the API server.
	Reader client.Reader
	GVK    schema.GroupVersionKind
	States States

	passed   sync.Map    // namespaces in which the cache has reached the version
	stores   sync.Map    // the known stores by namespace, because finding them is expensive
	entered  sync.Map    // versions of namespaces that have come into scope
	verified atomic.Bool // Verify has proved that the cache has reached the version
}

// States are the known states of the objects, see [objectstate.Store].
type States interface {
	Newest(types.UID) client.Object
	Observed(types.NamespacedName) client.Object
	Keys(match func(types.NamespacedName) bool) []types.NamespacedName
}

// Enter sets the version of a namespace that comes into scope.
func (e *Epoch) Enter(namespace, version string) {
	if e != nil {
		e.entered.Store(namespace, version)
		e.forget(namespace)
	}
}

// Leave must be called once a namespace is out of scope.
func (e *Epoch) Leave(namespace string) {
	if e != nil {
		e.entered.Delete(namespace)
		e.forget(namespace)
	}
}

func (e *Epoch) forget(namespace string) {
	e.passed.Delete(namespace)
	e.stores.Delete(namespace)
}

// storeOf returns the cache's store for a namespace, or nil if it is unknown.
func (e *Epoch) storeOf(namespace string) toolscache.Store {
	if known, ok := e.stores.Load(namespace); ok {
		return known.(toolscache.Store)
	}
	store := e.Store(namespace)
	if store != nil {
		e.stores.Store(namespace, store)
	}
	return store
}

func (e *Epoch) versionOf(namespace string) string {
	if e.Scoped {
		if version, found := e.entered.Load(namespace); found {
			return version.(string)
		}
	}
	return e.Version
}

// IsPassed reports whether the cache has reached the epoch in a namespace. If so, whatever is read from the cache afterwards isn't older.
func (e *Epoch) IsPassed(namespace string) bool {
	if e == nil || e.verified.Load() {
		return true
	}
	version := e.versionOf(namespace)
	if version == "" {
		return false
	}
	if _, passed := e.passed.Load(namespace); passed {
		return true
	}
	store := e.storeOf(namespace)
	if store == nil {
		return false
	}
	if cached := store.LastStoreSyncResourceVersion(); cached == "" || objectstate.IsOlderVersion(cached, version) {
		return false
	}
	e.passed.Store(namespace, struct{}{})
	return true
}

// IsOlder reports whether a state of an object may be older than the epoch.
func (e *Epoch) IsOlder(obj client.Object) bool {
	if e == nil {
		return false
	}
	version := e.versionOf(obj.GetNamespace())
	return version == "" || objectstate.IsOlderVersion(obj.GetResourceVersion(), version)
}

// Existed reports whether an object existed when the process started, although the first list was too old to contain it. That is so if the
// first state from the watch isn't newer than the epoch.
func (e *Epoch) Existed(first client.Object) bool {
	if e == nil {
		return false
	}
	version := e.versionOf(first.GetNamespace())
	return version != "" && !objectstate.IsOlderVersion(version, first.GetResourceVersion())
}

// Stored returns the cached object with this key. It returns nil if there is none, if the cache's store is unknown, or if namespaces can
// come into scope. The caller shares the result with the cache and must not change it.
func (e *Epoch) Stored(key types.NamespacedName) client.Object {
	if e.Scoped {
		return nil
	}
	store := e.storeOf(key.Namespace)
	if store == nil {
		return nil
	}
	found, _, err := store.GetByKey(toolscache.ObjectName{Namespace: key.Namespace, Name: key.Name}.String())
	obj, ok := found.(client.Object)
	if err != nil || !ok {
		return nil
	}
	return obj
}
