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

	passed   sync.Map    // namespaces in which the cache has reached the version, with their stores
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
		e.passed.Delete(namespace)
	}
}

// Leave must be called once a namespace is out of scope.
func (e *Epoch) Leave(namespace string) {
	if e != nil {
		e.entered.Delete(namespace)
		e.passed.Delete(namespace)
	}
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
	store := e.Store(namespace)
	if store == nil {
		return false
	}
	if cached := store.LastStoreSyncResourceVersion(); cached == "" || objectstate.IsOlderVersion(cached, version) {
		return false
	}
	e.passed.Store(namespace, store)
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

// Stored returns the cached object with this key. It returns nil if there is none, if the cache hasn't reached the epoch, or if namespaces
// can come into scope. The caller shares the result with the cache and must not change it.
func (e *Epoch) Stored(key types.NamespacedName) client.Object {
	store, passed := e.passed.Load(key.Namespace)
	if !passed || e.Scoped {
		return nil
	}
	found, _, err := store.(toolscache.Store).GetByKey(toolscache.ObjectName{Namespace: key.Namespace, Name: key.Name}.String())
	obj, ok := found.(client.Object)
	if err != nil || !ok {
		return nil
	}
	return obj
}
