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
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
)

// epochTimeout limits the request for a kind's current resource version.
const epochTimeout = 10 * time.Second

// An Epoch finds out which resource version a cache must have reached to contain all writes of earlier processes.
type Epoch struct {
	Reader client.Reader // reads from the API server
	Log    logr.Logger
	Cache  cache.Cache
	// EachNamespace is true if the operator restricts the cache to namespaces that can change. The version is then read separately for each
	// of them.
	EachNamespace bool
}

// Set passes the current resource version of a kind to the engine. Earlier processes have stopped, so a cache that has reached this version
// contains all their writes. If Set can't read the version, the engine instead reads each object with due work once from the API server.
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

// currentVersion lists at most one object and returns the resource version of the list, which doesn't depend on the namespace. If the
// operator may not list the whole cluster, it lists one of the namespaces the cache is restricted to.
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

// Await waits until a kind's indexes contain all objects as of the version from [Epoch.Set], because the initial list may be older.
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

// VersionOf lists at most one object in a namespace and returns the list's resource version. An empty namespace means the cluster.
func VersionOf(ctx context.Context, reader client.Reader, e *engine.Engine, namespace string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, epochTimeout)
	defer cancel()
	one := &metav1.PartialObjectMetadataList{}
	one.SetGroupVersionKind(e.GVK.GroupVersion().WithKind(e.GVK.Kind + "List"))
	err := reader.List(ctx, one, client.InNamespace(namespace), client.Limit(1))
	return one.GetResourceVersion(), err
}

// AwaitEpoch waits until an engine's indexes contain all objects of the namespaces as of the epoch. If this takes too long, it logs that
// and returns.
func AwaitEpoch(ctx context.Context, log logr.Logger, e *engine.Engine, namespaces ...string) {
	if err := e.AwaitEpoch(ctx, namespaces...); err != nil && ctx.Err() == nil {
		log.Info("Indexes may lack objects that the watch has not delivered yet", "kind", e.GVK.Kind, "error", err.Error())
	}
}
