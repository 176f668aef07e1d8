package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// VerifyCache proves that a cache that was filled before the epoch contains the state of the epoch. The version of such a cache remains the version of its
// last event. Without a proof, the engine would read each object with due work from the API server.
//
// VerifyCache lists the metadata of all objects with one request for each namespace. The empty namespace means the cluster. It then waits until the cache
// has all listed objects in these or newer versions, and no older objects that are not listed. delivered is closed when the engine has observed all objects
// of the cache. VerifyCache returns an error if the list fails, or if the cache remains older for epochTimeout. Without an epoch, or with a scope, it does nothing.
func (e *Engine) VerifyCache(ctx context.Context, delivered <-chan struct{}, namespaces ...string) error {
	if e.epoch == nil || e.epoch.scoped {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, epochTimeout, errEpochTimeout)
	defer cancel()
	listed, err := e.listMetadata(ctx, namespaces)
	if err != nil {
		return fmt.Errorf("listing objects on the API server to verify the cache: %w", err)
	}
	select {
	case <-delivered:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for !e.contains(listed) {
		select {
		case <-time.After(epochPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e.epoch.verified.Store(true)
	return nil
}

// contains reports whether the cache has all listed objects, in the listed versions or newer ones. If the cache has an object that is not listed and is older
// than the epoch, contains returns false.
func (e *Engine) contains(listed []metav1.ObjectMeta) bool {
	exists := make(map[types.UID]bool, len(listed))
	for _, one := range listed {
		exists[one.UID] = true
		known := e.states.Newest(one.UID)
		if (known == nil || objectstate.IsOlderVersion(known.GetResourceVersion(), one.ResourceVersion)) && objectstate.IsOlderVersion(e.epoch.cached(one.Namespace), one.ResourceVersion) {
			return false
		}
	}
	all := func(types.NamespacedName) bool { return true }
	return !slices.ContainsFunc(e.states.Keys(all), func(key types.NamespacedName) bool {
		observed := e.states.Observed(key)
		return observed != nil && !exists[observed.GetUID()] && e.epoch.isOlder(observed)
	})
}

// listMetadata returns the metadata of the objects that the API server has in some namespaces. It does not page: the API server answers such a list
// from memory, and each page would wait for the rate limit of the client.
func (e *Engine) listMetadata(ctx context.Context, namespaces []string) (all []metav1.ObjectMeta, err error) {
	for _, namespace := range namespaces {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
		if err := e.APIReader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			one := &list.Items[i]
			all = append(all, metav1.ObjectMeta{Namespace: one.Namespace, UID: one.UID, ResourceVersion: one.ResourceVersion})
		}
	}
	return all, nil
}
