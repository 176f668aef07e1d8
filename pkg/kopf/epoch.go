package kopf

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// epochTimeout limits the request for the current resource version of a kind.
const epochTimeout = 10 * time.Second

// setEpoch passes the current resource version of a kind to the engine. Earlier processes have stopped, so a cache that has reached this
// version contains all their writes. If setEpoch cannot read the version, the engine reads each object with due work once from the API server.
func (g *kindGroup) setEpoch(ctx context.Context, e *engine.Engine) {
	version, err := g.currentVersion(ctx, e)
	if err != nil && g.operator.namespaces == nil { // the versions are read again for each namespace
		g.operator.mgr.GetLogger().Info("Failed to read the current version of the kind; each object with due work is read once from the API server",
			"kind", e.GVK.Kind, "error", err.Error())
	}
	e.StartFrom(version, func(namespace string) toolscache.Store {
		informer, err := g.cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
		if err != nil {
			return nil
		}
		return watchcheck.Store(informer, namespace)
	})
}

// currentVersion lists at most one object and returns the resource version of the list, which does not depend on the listed namespace. If
// the operator may not list the whole cluster, currentVersion lists one of the namespaces to which the cache is restricted.
func (g *kindGroup) currentVersion(ctx context.Context, e *engine.Engine) (version string, err error) {
	if mayListCluster := g.operator.namespaces == nil || !e.Namespaced; mayListCluster {
		version, err = g.operator.versionOf(ctx, e, "")
		if !apierrors.IsForbidden(err) {
			return version, err
		}
	}
	informer, unknown := g.cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
	if unknown != nil {
		return "", errors.Join(err, unknown)
	}
	for _, namespace := range watchcheck.Namespaces(informer) {
		if version, err = g.operator.versionOf(ctx, e, namespace); err == nil {
			return version, nil
		}
	}
	return "", err
}

// versionOf lists at most one object of a namespace and returns the resource version of the list. An empty namespace means the cluster.
func (o *Operator) versionOf(ctx context.Context, e *engine.Engine, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, epochTimeout)
	defer cancel()
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
	err := o.mgr.GetAPIReader().List(ctx, one, client.InNamespace(namespace), client.Limit(1))
	return one.GetResourceVersion(), err
}

// awaitEpoch waits until the indexes of a kind contain the objects as they were at the version of setEpoch, because the initial list may be older.
func (g *kindGroup) awaitEpoch(ctx context.Context, e *engine.Engine) {
	informer, err := g.cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return // the cache is stopping
	}
	namespaces := watchcheck.Namespaces(informer)
	if len(namespaces) == 0 {
		if g.operator.namespaces != nil && e.Namespaced {
			return // waitForCaches waits for each namespace
		}
		namespaces = []string{""}
	}
	g.operator.awaitEpochOf(ctx, e, namespaces...)
}

// awaitEpochOf waits until the indexes of an engine contain the objects of the namespaces as they were at the epoch. If this takes too long, it logs a
// message and returns.
func (o *Operator) awaitEpochOf(ctx context.Context, e *engine.Engine, namespaces ...string) {
	if err := e.AwaitEpoch(ctx, namespaces...); err != nil && ctx.Err() == nil {
		o.mgr.GetLogger().Info("Indexes may lack objects that the watch has not delivered yet", "kind", e.GVK.Kind, "error", err.Error())
	}
}
