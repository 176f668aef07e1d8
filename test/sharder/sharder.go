// Package sharder plays the sharder of kubernetes-controller-sharding in tests. It follows the protocol of version 0.13: the states of Leases, the drain of objects of
// available shards, and the movement of the objects of all others. Instead of a webhook, it assigns objects itself.
package sharder

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
)

const (
	identity  = "shardlease-controller"
	orphanAge = time.Minute
)

// A Sharder assigns the objects of some kinds to the shards of a ring.
type Sharder struct {
	Client client.Client
	Ring   string
	Kinds  []schema.GroupVersionKind
	// Namespace restricts the objects; empty for all.
	Namespace string
	// Concurrency is the number of objects that are moved at a time. Default: 1.
	Concurrency int
	// Moved is called, also concurrently, after each request that assigns or drains an object. It is optional.
	Moved func(key types.NamespacedName, from, to string, drain bool)
}

// Run assigns objects at an interval until the context is cancelled. Errors are ignored, because the next pass repeats the requests.
func (s *Sharder) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		_ = s.Sync(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sync makes one pass over the Leases and the objects.
func (s *Sharder) Sync(ctx context.Context) error {
	available, err := s.available(ctx)
	if err != nil || len(available) == 0 {
		return err
	}
	for _, gvk := range s.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		var moves errgroup.Group
		moves.SetLimit(max(1, s.Concurrency))
		for i := range list.Items {
			obj := &list.Items[i]
			obj.SetGroupVersionKind(gvk)
			move := func() error {
				err := s.assign(ctx, obj, available)
				if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					return nil
				}
				return err
			}
			if s.Concurrency <= 1 { // in a fixed order
				if err := move(); err != nil {
					return err
				}
				continue
			}
			moves.Go(move)
		}
		if err := moves.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// available updates the Leases of dead shards, and returns the names of the other shards.
func (s *Sharder) available(ctx context.Context) (names []string, err error) {
	leases := &coordinationv1.LeaseList{}
	if err := s.Client.List(ctx, leases, client.MatchingLabels{sharding.LeaseLabel: s.Ring}); err != nil {
		return nil, fmt.Errorf("listing Leases: %w", err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		duration := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
		expired := time.Since(lease.Spec.RenewTime.Add(duration))
		switch isHeld := *lease.Spec.HolderIdentity == lease.Name; {
		case !isHeld && expired > orphanAge:
			err = s.Client.Delete(ctx, lease)
		case !isHeld:
		case expired < duration:
			names = append(names, lease.Name)
		default:
			now := metav1.NowMicro()
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(identity), new(2*int32(duration.Seconds()))
			lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
			if err = s.Client.Update(ctx, lease); apierrors.IsConflict(err) { // the shard has renewed the Lease
				names = append(names, lease.Name)
			}
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("updating the Lease %s: %w", lease.Name, err)
		}
	}
	return names, nil
}

func (s *Sharder) assign(ctx context.Context, obj *metav1.PartialObjectMetadata, available []string) error {
	shard, drain := sharding.ShardLabel(s.Ring), sharding.DrainLabel(s.Ring)
	current := obj.Labels[shard]
	_, isDrained := obj.Labels[drain]
	desired := Choose(obj.Namespace+"/"+obj.Name, available)
	text := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:%q,%q:null}}}`, obj.ResourceVersion, shard, desired, drain)
	mustDrain := slices.Contains(available, current)
	switch {
	case desired == current, mustDrain && isDrained:
		return nil
	case mustDrain:
		text = fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"labels":{%q:"true"}}}`, obj.ResourceVersion, drain)
	}
	key := client.ObjectKeyFromObject(obj)
	if err := s.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		return err
	}
	if s.Moved != nil {
		s.Moved(key, current, desired, mustDrain)
	}
	return nil
}

// Choose returns the shard with the highest hash for a key, so that few objects move if the shards change.
func Choose(key string, shards []string) (best string) {
	var highest uint64
	for _, shard := range shards {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(shard + " " + key)) // never fails
		value := hash.Sum64()
		value ^= value >> 33
		value *= 0xff51afd7ed558ccd
		value ^= value >> 33
		if best == "" || value > highest {
			best, highest = shard, value
		}
	}
	return best
}
