package epoch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

const (
	poll     = 100 * time.Millisecond
	timeout  = 30 * time.Second
	pageSize = 500
)

var errTimeout = errors.New("the cache is older than the start of the operator")

// Await waits until the cache shows the objects of the given namespaces as they were when the process started, and until index handlers
// have been called for them. If the cache hasn't reached the epoch yet, Await lists the objects on the API server, and waits until the
// cache has the listed versions or newer ones. After 30 seconds, it returns an error.
func (e *Epoch) Await(ctx context.Context, namespaces ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	behind := slices.DeleteFunc(slices.Clone(namespaces), e.IsPassed)
	if len(behind) == 0 {
		return nil
	}
	missing, err := e.list(ctx, behind, pageSize)
	if err != nil {
		return fmt.Errorf("listing objects on the API server to complete an old initial list: %w", err)
	}
	for len(missing) > 0 {
		missing = slices.DeleteFunc(missing, e.contains)
		select { // even after the last object, so that its index handlers have returned
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("%w: %d objects are missing", context.Cause(ctx), len(missing))
		}
	}
	return nil
}

// Verify proves that a cache filled before the epoch contains the epoch's state. It is needed because the version of such a cache stays the
// version of its last event. Without the proof, the engine would read each object with due work from the API server.
//
// Verify lists the metadata of all objects, with one request per namespace; the empty namespace means the whole cluster. It then waits
// until the cache has all listed objects in these or newer versions, and no older objects that weren't listed. delivered is closed once the
// engine has observed all objects in the cache. Verify returns an error if listing fails, or if the cache is still older after 30 seconds.
// With a scope, it does nothing.
func (e *Epoch) Verify(ctx context.Context, delivered <-chan struct{}, namespaces ...string) error {
	if e == nil || e.Scoped {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	// We don't use pages here: the API server answers from memory, and each page would wait for the client's rate limit.
	listed, err := e.list(ctx, namespaces, 0)
	if err != nil {
		return fmt.Errorf("listing objects on the API server to verify the cache: %w", err)
	}
	select {
	case <-delivered:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for !e.matches(listed) {
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e.verified.Store(true)
	return nil
}

// contains reports whether the cache has a listed object in at least the listed version. It also returns true if the cache is newer than
// the object, because the object was then deleted.
func (e *Epoch) contains(listed metav1.ObjectMeta) bool {
	if known := e.States.Newest(listed.UID); known != nil && !objectstate.IsOlderVersion(known.GetResourceVersion(), listed.ResourceVersion) {
		return true
	}
	store := e.Store(listed.Namespace)
	return store != nil && !objectstate.IsOlderVersion(store.LastStoreSyncResourceVersion(), listed.ResourceVersion)
}

// matches reports whether the cache has all listed objects, and no other object that is older than the epoch.
func (e *Epoch) matches(listed []metav1.ObjectMeta) bool {
	exists := make(map[types.UID]bool, len(listed))
	for _, one := range listed {
		if exists[one.UID] = true; !e.contains(one) {
			return false
		}
	}
	all := func(types.NamespacedName) bool { return true }
	return !slices.ContainsFunc(e.States.Keys(all), func(key types.NamespacedName) bool {
		observed := e.States.Observed(key)
		return observed != nil && !exists[observed.GetUID()] && e.IsOlder(observed)
	})
}

// list returns the metadata of the objects on the API server in some namespaces. If pageSize is 0, it makes one request per namespace.
func (e *Epoch) list(ctx context.Context, namespaces []string, pageSize int64) (all []metav1.ObjectMeta, err error) {
	for _, namespace := range namespaces {
		pages := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			page := &metav1.PartialObjectMetadataList{}
			page.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
			options := client.ListOptions{}
			if e.Selector != nil {
				options = *e.Selector
			}
			options.Namespace, options.Limit, options.Continue = namespace, opts.Limit, opts.Continue
			return page, e.Reader.List(ctx, page, &options)
		})
		pages.PageSize = pageSize
		err = errors.Join(err, pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
			listed := item.(*metav1.PartialObjectMetadata)
			all = append(all, metav1.ObjectMeta{Namespace: listed.Namespace, UID: listed.UID, ResourceVersion: listed.ResourceVersion})
			return nil
		}))
	}
	return all, err
}
