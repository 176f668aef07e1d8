package kopf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/shardlease"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

// WithSharding distributes the objects of the operator over its replicas. All replicas are active, without leader election. Each replica is a shard with a Lease
// of its own. The sharder of kubernetes-controller-sharding must run in the cluster, and a ControllerRing must list the kinds of the operator:
//
//	kopf.SetupWithManager(mgr, databases, kopf.WithSharding(sharding.ControllerRing("databases")))
//
// Each replica watches only its objects. Related kinds ([Resource.Owns], [Resource.Watches], [Request.Track]) and kinds with only [IndexBy] are not restricted.
// When an object moves to another replica, its handlers finish, and its daemons and timers end with [daemons.ErrOutOfScope]. The operator writes their outcomes.
// The next replica resumes the object. The labels of the sharder never count as changes.
//
// [WithLeaseDurations] sets the durations of the Lease. An operator that cannot renew its Lease in time cancels the contexts of all handlers, and
// [Operator.Start] returns an error before other replicas can handle its objects. The process must then exit. If a user removes the shard label of an object,
// the operator loses the progress of the object that it has not written yet.
//
// The operator has a cache of its own: see [WithKindCaches]. WithSharding cannot be combined with [WithPeering]. Default: no sharding.
func WithSharding(ring sharding.Ring) Option {
	return optionFunc(func(o *Operator) {
		if err := ring.Check(); err != nil {
			o.addError(fmt.Errorf("WithSharding: %w", err))
		}
		o.ring = &ring
	})
}

// isSharded reports whether each replica handles only a part of the objects of a kind.
func (o *Operator) isSharded(kind *engine.Kind) bool {
	handlers := len(kind.Handlers.IDs()) + len(kind.EventHandlers.IDs()) + len(kind.ReconcileHandlers.IDs()) + len(kind.BackgroundHandlers.IDs())
	return o.ring != nil && handlers > 0
}

// checkShardedKind returns an error for an index over a sharded kind.
func (o *Operator) checkShardedKind(kind *engine.Kind) error {
	if indexes := kind.Indexes.IDs(); o.isSharded(kind) && len(indexes) > 0 {
		return fmt.Errorf("%s: IndexBy(%q): with WithSharding, the index would contain only the objects of one replica: "+
			"put the index into another operator without sharding, or read the objects with a client", kind.GVK.Kind, indexes[0])
	}
	return nil
}

// checkSharding returns the errors of the declaration that depend on several options or kinds.
func (o *Operator) checkSharding(kinds []engine.Kind) (errs []error) {
	if o.ring == nil {
		return nil
	}
	if o.peers != nil && !o.peers.Standalone {
		errs = append(errs, errors.New("WithSharding and WithPeering: the replicas would be peers of equal priority and pause each other: remove one of the options"))
	}
	if o.lease == (leaseDurations{}) {
		errs = append(errs, errors.New("WithSharding needs the durations of the Lease: remove WithLeaseDurations(0, 0, 0)"))
	}
	_, err := o.ring.Shard()
	_, namespaceErr := o.ring.Namespace()
	for _, err := range []error{err, namespaceErr} {
		if err != nil {
			errs = append(errs, fmt.Errorf("WithSharding: %w", err))
		}
	}
	for _, r := range o.resources {
		for _, related := range r.relatedKinds() {
			if slices.ContainsFunc(kinds, func(kind engine.Kind) bool { return kind.GVK == related.gvk && o.isSharded(&kind) }) {
				errs = append(errs, fmt.Errorf("%s(%s): the kind is also sharded, so that changes of other replicas' objects would go unnoticed: "+
					"handle the kind in another operator with a ring of its own", related.method, related.gvk.Kind))
			}
		}
	}
	return errs
}

// selectorOf returns the label selector for the watch of a kind, or nil for all objects.
func (o *Operator) selectorOf(kind *engine.Kind) labels.Selector {
	if !o.isSharded(kind) || o.shard == nil {
		return o.watchSelector
	}
	return bothSelectors(o.watchSelector, labels.SelectorFromSet(labels.Set{o.shard.Label: o.shard.Name}))
}

func (o *Operator) shardOf(kind *engine.Kind) *engine.Shard {
	if !o.isSharded(kind) {
		return nil
	}
	return o.shard
}

// ringKind is the kind of the objects of the sharder.
var ringKind = schema.GroupVersionKind{Group: "sharding.timebertt.dev", Version: "v1alpha1", Kind: "ControllerRing"}

// checkRing returns an error if the ring does not exist, or if it lacks a kind of the operator.
func (o *Operator) checkRing(ctx context.Context, kinds []engine.Kind) error {
	if o.ring == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	ring := Unstructured(ringKind)
	err := o.mgr.GetAPIReader().Get(ctx, client.ObjectKey{Name: o.ring.Name()}, ring)
	log := o.mgr.GetLogger().WithValues("ring", o.ring.Name())
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the operator cannot start:\nWithSharding: the API server does not serve ControllerRings of %s: install kubernetes-controller-sharding", ringKind.GroupVersion())
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the operator cannot start:\nWithSharding: the ControllerRing %q does not exist: create it, with the resources of the operator in spec.resources", o.ring.Name())
	case apierrors.IsForbidden(err):
		log.Info("Warning: the operator may not read its ControllerRing, and cannot check that the ring contains its kinds", "error", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("the operator cannot start:\nreading the ControllerRing %q: %w", o.ring.Name(), rbac.Explain(err))
	}
	listed := ringResources(ring)
	var errs []error
	for _, kind := range kinds {
		mapping, err := o.mgr.GetRESTMapper().RESTMapping(kind.GVK.GroupKind(), kind.GVK.Version)
		if err != nil || !o.isSharded(&kind) {
			continue // discover reports a kind that is not served, or the kind waits
		}
		if gr := mapping.Resource.GroupResource(); !slices.Contains(listed, gr) {
			errs = append(errs, fmt.Errorf("WithSharding: the ControllerRing %q does not contain %s, so that no replica would handle its objects: "+
				"add {group: %q, resource: %q} to spec.resources (it has %q)", o.ring.Name(), gr, gr.Group, gr.Resource, joinResources(listed)))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("the operator cannot start:\n%w", err)
	}
	return nil
}

// ringResources returns the main resources of a ring. The sharder drains their objects before it moves them. It moves objects of controlled resources
// without a drain, so they do not count.
func ringResources(ring *unstructured.Unstructured) (all []schema.GroupResource) {
	resources, _, _ := unstructured.NestedSlice(ring.Object, "spec", "resources")
	for _, one := range resources {
		fields, _ := one.(map[string]any)
		group, _ := fields["group"].(string)
		resource, _ := fields["resource"].(string)
		all = append(all, schema.GroupResource{Group: group, Resource: resource})
	}
	return all
}

func joinResources(all []schema.GroupResource) string {
	var names []string
	for _, gr := range all {
		names = append(names, gr.String())
	}
	return strings.Join(names, ", ")
}

// ofRing returns the permissions of a shard. namespace is the namespace of the operator, and may be empty outside of a cluster.
func (o *Operator) ofRing(namespace string) []rbac.Need {
	if explicit := o.ring.ExplicitNamespace(); explicit != "" {
		namespace = explicit
	} else if found, err := o.ring.Namespace(); namespace == "" && err == nil {
		namespace = found
	}
	return []rbac.Need{
		{Group: "coordination.k8s.io", Resource: "leases", Namespace: namespace, Verbs: []string{"get", "create", "update"}, Level: rbac.Required, Reason: "sharding: the Lease of the shard"},
		{Group: ringKind.Group, Resource: "controllerrings", Verbs: []string{"get"}, Reason: "optional: without it, the kinds of the ring are not checked"},
	}
}

// runInRing acquires the Lease of the shard, calls run while it holds the Lease, and then releases the Lease. If the Lease is lost, runInRing returns an error
// before other shards can handle the objects, even if run has not returned.
func (o *Operator) runInRing(ctx context.Context, run func(context.Context) error) error {
	if o.ring == nil {
		return run(ctx)
	}
	release, err := o.reserveRing()
	if err != nil {
		return err
	}
	defer release()
	lease, err := o.acquireLease(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the operator was stopped in the meantime
		}
		return fmt.Errorf("the operator cannot start:\nWithSharding: %w", err)
	}
	log := o.mgr.GetLogger().WithValues("ring", o.ring.Name(), "shard", o.shard.Name)
	log.Info("Holding the Lease of the shard")
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx)) // handlers may run for some time after the end of the context
	defer stop()
	lost, ended := make(chan error, 1), make(chan error, 1)
	go func() { lost <- lease.Keep(keeping) }()
	go func() { ended <- run(running) }()
	select {
	case err := <-ended:
		stop()
		if lostErr := <-lost; lostErr != nil {
			return errors.Join(err, lostErr)
		}
		if o.unfinished.Load() {
			log.Info("Warning: daemons or timers have not returned; the Lease of the shard is not released and expires")
			return err
		}
		if releaseErr := lease.Release(context.WithoutCancel(ctx)); releaseErr != nil {
			log.Error(releaseErr, "Failed to release the Lease of the shard; it expires")
		}
		return err
	case lostErr := <-lost:
		cancel(lostErr)
		return o.awaitEnd(ended, lease.Remaining(), lostErr)
	}
}

// awaitEnd waits for a limited time until the work has ended. After this time, it closes the engines, so that they write nothing.
func (o *Operator) awaitEnd(ended <-chan error, limit time.Duration, lost error) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return errors.Join(lost, err)
	case <-timer.C:
		for _, e := range o.runningEngines() {
			e.Close()
		}
		return lost
	}
}

// reserveRing reserves the ring until release is called. It returns an error if another operator of the manager is a shard of the ring, because both would
// use the same Lease.
func (o *Operator) reserveRing() (release func(), err error) {
	r := reservation{o.mgr, ringKind, o.ring.Name()}
	if _, taken := reservations.LoadOrStore(r, true); taken {
		return nil, fmt.Errorf("the operator cannot start:\nWithSharding: another operator of this manager is in the ring %q: put the handlers into one operator", o.ring.Name())
	}
	return func() { reservations.Delete(r) }, nil
}

// acquireLease acquires the Lease of the shard with a client of its own, so that no other request delays the renewals.
func (o *Operator) acquireLease(ctx context.Context) (*shardlease.Lease, error) {
	name, err := o.ring.Shard()
	if err != nil {
		return nil, err
	}
	namespace, err := o.ring.Namespace()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(o.mgr.GetConfig())
	config.QPS, config.RateLimiter = -1, nil
	config.Timeout = o.lease.renewDeadline / 2
	config.ContentType = "application/json"
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for the Lease: %w", err)
	}
	o.shard = &engine.Shard{Label: sharding.ShardLabel(o.ring.Name()), Name: name, Drain: sharding.DrainLabel(o.ring.Name())}
	return shardlease.Acquire(ctx, shardlease.Options{
		Identity: shardlease.Identity{
			Namespace: namespace, Name: name, RingLabel: sharding.LeaseLabel, Ring: o.ring.Name(), Instance: string(uuid.NewUUID()),
		},
		Client: leases, Duration: o.lease.lease, RenewDeadline: o.lease.renewDeadline, RetryPeriod: o.lease.retryPeriod,
		WallClock: testhook.WallClockOrNil(ctx), Log: o.mgr.GetLogger().WithValues("ring", o.ring.Name()),
	})
}
