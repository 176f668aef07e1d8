package operator

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
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

// An Epoch finds out from which version of the API server on a cache contains the writes of earlier processes.
type Epoch struct {
	Reader client.Reader // of the API server
	Log    logr.Logger
	Cache  cache.Cache
	// EachNamespace is true if the operator restricts the cache to namespaces that can change. The version is then read again for each of them.
	EachNamespace bool
}

// Set passes the current resource version of a kind to the engine. Earlier processes have stopped, so a cache that has reached this
// version contains all their writes. If Set cannot read the version, the engine reads each object with due work once from the API server.
func (p Epoch) Set(ctx context.Context, e *engine.Engine) {
	version, err := p.currentVersion(ctx, e)
	if err != nil && !p.EachNamespace {
		p.Log.Info("Failed to read the current version of the kind; each object with due work is read once from the API server",
			"kind", e.GVK.Kind, "error", err.Error())
	}
	e.StartFrom(version, func(namespace string) toolscache.Store {
		informer, err := p.Cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
		if err != nil {
			return nil
		}
		return watchcheck.Store(informer, namespace)
	})
}

// currentVersion lists at most one object and returns the resource version of the list, which does not depend on the listed namespace. If
// the operator may not list the whole cluster, currentVersion lists one of the namespaces to which the cache is restricted.
func (p Epoch) currentVersion(ctx context.Context, e *engine.Engine) (version string, err error) {
	if mayListCluster := !p.EachNamespace || !e.Namespaced; mayListCluster {
		version, err = VersionOf(ctx, p.Reader, e, "")
		if !apierrors.IsForbidden(err) {
			return version, err
		}
	}
	informer, unknown := p.Cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
	if unknown != nil {
		return "", errors.Join(err, unknown)
	}
	for _, namespace := range watchcheck.Namespaces(informer) {
		if version, err = VersionOf(ctx, p.Reader, e, namespace); err == nil {
			return version, nil
		}
	}
	return "", err
}

// Await waits until the indexes of a kind contain the objects as they were at the version of [Epoch.Set], because the initial list may be older.
func (p Epoch) Await(ctx context.Context, e *engine.Engine) {
	informer, err := p.Cache.GetInformer(ctx, e.New(), cache.BlockUntilSynced(false))
	if err != nil {
		return // the cache is stopping
	}
	namespaces := watchcheck.Namespaces(informer)
	if len(namespaces) == 0 {
		if p.EachNamespace && e.Namespaced {
			return // AwaitEpoch waits for each namespace
		}
		namespaces = []string{""}
	}
	AwaitEpoch(ctx, p.Log, e, namespaces...)
}

// VersionOf lists at most one object of a namespace and returns the resource version of the list. An empty namespace means the cluster.
func VersionOf(ctx context.Context, reader client.Reader, e *engine.Engine, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, epochTimeout)
	defer cancel()
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
	err := reader.List(ctx, one, client.InNamespace(namespace), client.Limit(1))
	return one.GetResourceVersion(), err
}

// AwaitEpoch waits until the indexes of an engine contain the objects of the namespaces as they were at the epoch. If this takes too long, it logs a
// message and returns.
func AwaitEpoch(ctx context.Context, log logr.Logger, e *engine.Engine, namespaces ...string) {
	if err := e.AwaitEpoch(ctx, namespaces...); err != nil && ctx.Err() == nil {
		log.Info("Indexes may lack objects that the watch has not delivered yet", "kind", e.GVK.Kind, "error", err.Error())
	}
}
