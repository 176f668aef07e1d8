package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// epoch is the resource version at the start of the process, when an earlier process had stopped. An older cache may lack the last writes of that
// process: the reflector of client-go can list from an API server that lags behind.
type epoch struct {
	version string                                  // empty if it is unknown
	store   func(namespace string) toolscache.Store // the store of the cache for a namespace; nil if it is unknown
	passed  sync.Map                                // from the namespaces in which the cache has reached the version to their stores
	scoped  bool                                    // namespaces can come into scope later
	entered sync.Map                                // the versions of these namespaces

	verified atomic.Bool // VerifyCache has proved that the cache has reached the version
}

func (p *epoch) versionOf(namespace string) string {
	if p.scoped {
		if version, found := p.entered.Load(namespace); found {
			return version.(string)
		}
	}
	return p.version
}

// StartFrom sets the epoch. The engine then trusts a state of an object only if the state is not older than the version,
// or if the cache has reached the version. With an empty version, it trusts no state. store returns the store of the cache for a namespace, or nil if it is
// unknown. StartFrom must be called before the informer delivers the first object. Without it, the engine trusts every state.
func (e *Engine) StartFrom(version string, store func(namespace string) toolscache.Store) {
	e.epoch = &epoch{version: version, store: store, scoped: e.Scope != nil}
}

// cached returns the version of the cache for a namespace; empty if it is unknown.
func (p *epoch) cached(namespace string) string {
	if store := p.store(namespace); store != nil {
		return store.LastStoreSyncResourceVersion()
	}
	return ""
}

// isPassed reports whether the cache has reached the epoch in a namespace. Objects that are read from the cache afterwards are not older.
func (p *epoch) isPassed(namespace string) bool {
	if p.verified.Load() {
		return true
	}
	epoch := p.versionOf(namespace)
	if epoch == "" {
		return false
	}
	if _, passed := p.passed.Load(namespace); passed {
		return true
	}
	store := p.store(namespace)
	if store == nil {
		return false
	}
	if version := store.LastStoreSyncResourceVersion(); version == "" || objectstate.IsOlderVersion(version, epoch) {
		return false
	}
	p.passed.Store(namespace, store)
	return true
}

// stored returns the object that the cache has for a key. It returns nil if there is none, if the cache has not reached the epoch, or if the namespaces of the
// cache change. The result is shared with the cache and must not be changed.
func (p *epoch) stored(key types.NamespacedName) client.Object {
	store, passed := p.passed.Load(key.Namespace)
	if !passed || p.scoped {
		return nil
	}
	found, _, err := store.(toolscache.Store).GetByKey(toolscache.ObjectName{Namespace: key.Namespace, Name: key.Name}.String())
	obj, ok := found.(client.Object)
	if err != nil || !ok {
		return nil
	}
	return obj
}

// isOlder reports whether a state of an object may be older than the epoch.
func (p *epoch) isOlder(obj client.Object) bool {
	epoch := p.versionOf(obj.GetNamespace())
	return epoch == "" || objectstate.IsOlderVersion(obj.GetResourceVersion(), epoch)
}

// existedAtEpoch reports whether an object existed when the process started, although an old first listing lacked it: its first state from the watch is not
// newer than the epoch.
func (e *Engine) existedAtEpoch(first client.Object) bool {
	if e.epoch == nil {
		return false
	}
	epoch := e.epoch.versionOf(first.GetNamespace())
	return epoch != "" && !objectstate.IsOlderVersion(epoch, first.GetResourceVersion())
}

// AwaitEpoch waits until the cache shows the objects of the given namespaces as they were when the process started. It also waits until the index handlers
// were called for these objects. If the cache has not reached the epoch, AwaitEpoch lists the objects on the API server. It then waits until the cache
// shows the listed versions or newer ones. After epochTimeout, AwaitEpoch returns an error.
func (e *Engine) AwaitEpoch(ctx context.Context, namespaces ...string) error {
	if e.epoch == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, epochTimeout, errEpochTimeout)
	defer cancel()
	behind := slices.DeleteFunc(slices.Clone(namespaces), e.epoch.isPassed)
	if len(behind) == 0 {
		return nil
	}
	missing, err := e.listVersions(ctx, behind)
	if err != nil {
		return fmt.Errorf("listing objects on the API server to complete an old initial list: %w", err)
	}
	for len(missing) > 0 {
		missing = slices.DeleteFunc(missing, func(one metav1.ObjectMeta) bool {
			known := e.states.Newest(one.UID)
			return known != nil && !objectstate.IsOlderVersion(known.GetResourceVersion(), one.ResourceVersion) || !objectstate.IsOlderVersion(e.epoch.cached(one.Namespace), one.ResourceVersion)
		})
		select { // also after the last object, so that the index handlers for it have returned
		case <-time.After(epochPoll):
		case <-ctx.Done():
			return fmt.Errorf("%w: %d objects are missing", context.Cause(ctx), len(missing))
		}
	}
	return nil
}

const (
	epochPoll    = 100 * time.Millisecond
	epochTimeout = 30 * time.Second
)

var errEpochTimeout = errors.New("the cache is older than the start of the operator")

// listVersions returns the metadata of the objects that the API server has in some namespaces.
func (e *Engine) listVersions(ctx context.Context, namespaces []string) (all []metav1.ObjectMeta, err error) {
	for _, namespace := range namespaces {
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			page := &metav1.PartialObjectMetadataList{}
			page.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
			return page, e.APIReader.List(ctx, page, client.InNamespace(namespace), client.Limit(opts.Limit), client.Continue(opts.Continue))
		})
		err = errors.Join(err, pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			listed := item.(*metav1.PartialObjectMetadata)
			all = append(all, metav1.ObjectMeta{Namespace: listed.Namespace, UID: listed.UID, ResourceVersion: listed.ResourceVersion})
			return nil
		}))
	}
	return all, err
}

// verifyAgainstEpoch ensures that the engine does not call handlers or write because of a state that is older than the start of the process: an
// earlier process may have stored progress since. If there is something to do for such a state, verifyAgainstEpoch reads the object from the API server,
// and returns a reconciliation of that state. It also returns the time to wait; 0 to continue.
func (e *Engine) verifyAgainstEpoch(ctx context.Context, r *reconciliation) (*reconciliation, time.Duration, error) {
	m := r.known
	if m.Worker.SeenSinceStart = r.afterEpoch || !e.epoch.isOlder(r.Base()); m.Worker.SeenSinceStart || !e.hasWork(r) {
		return r, 0, nil
	}
	log.FromContext(ctx).V(1).Info("The cache may be older than the start of the operator; reading the object from the API server")
	r.Pauses, r.Suspensions = e.pauses.Load(), e.committer.SuspensionCount()
	live, err := e.readLive(ctx, client.ObjectKeyFromObject(r.Base()))
	if err != nil {
		return r, 0, err
	}
	if live == nil || live.GetUID() != r.Base().GetUID() {
		r.Memory.FoundDeleted = true
		return r, e.ConsistencyTimeout, nil // the cache will show the deletion
	}
	m.Worker.SeenSinceStart = true
	if live.GetResourceVersion() == r.Base().GetResourceVersion() {
		return r, 0, nil
	}
	m.SetAwaitedVersion(live.GetResourceVersion(), e.ConsistencyTimeout)
	e.states.UpdateUnlessOlder(live)
	again := e.newReconciliation(m)
	again.Pauses, again.Suspensions = r.Pauses, r.Suspensions
	if err := again.SetBase(live); err != nil {
		return again, 0, err
	}
	return again, 0, e.evaluate(ctx, again)
}

// hasWork reports whether the reconcile may call handlers that have records, or write something.
func (e *Engine) hasWork(r *reconciliation) bool {
	if e.finalizerAction(r) != cause.KeepFinalizer || !r.hasNothingToWrite() {
		return true
	}
	if r.Cause.Reason != cause.Resume {
		return r.Cause.Reason.HasHandlers()
	}
	return slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.AnyReason || slices.Contains(handler.Reasons, string(cause.Resume))
	})
}
