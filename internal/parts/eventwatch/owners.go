package eventwatch

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxOwners limits how many objects are read, and how many owners are found, for one Event. Users may write any number of owner references.
const maxOwners = 200

const (
	maxCached        = 10_000           // dependents whose owners are cached
	cachedFor        = 10 * time.Minute // how long found owners are cached
	noOwnerCachedFor = time.Minute      // how long it is cached that there is no owner; the object may be adopted
)

// An Owner is the object that an Event is about, or an object that owns it.
type Owner struct {
	Key types.NamespacedName
	UID types.UID // empty if it isn't known from the Event
}

// is reports whether two owners are the same object. A missing uid matches every uid.
func (o Owner) is(other Owner) bool {
	return o.Key == other.Key && (o.UID == other.UID || o.UID == "" || other.UID == "")
}

// Owners finds objects of a kind that own other objects.
type Owners struct {
	reader     client.Reader
	kind       schema.GroupKind
	namespaced bool
	through    []schema.GroupVersionKind // the kinds of dependents, and those between dependents and owners
	found      *cache.LRUExpireCache     // lists of owners by the dependent's uid
}

// NewOwners returns Owners that find objects of one kind. through lists the kinds of dependents, and those between dependents and owners.
// reader must be able to read their metadata.
func NewOwners(reader client.Reader, kind schema.GroupKind, namespaced bool, through []schema.GroupVersionKind) *Owners {
	return &Owners{reader: reader, kind: kind, namespaced: namespaced, through: through, found: cache.NewLRUExpireCache(maxCached)}
}

// Of returns the objects that own the referenced object, or the object itself if it is of the kind. If an object in the chain of owner
// references doesn't exist, that chain leads to no owner.
func (o *Owners) Of(ctx context.Context, log logr.Logger, about corev1.ObjectReference) ([]Owner, error) {
	kind := about.GroupVersionKind().GroupKind()
	if about.UID == types.UID(about.Name) {
		about.UID = "" // for a Node, the kubelet writes the name as UID
	}
	if kind == o.kind {
		return []Owner{o.owner(about.Namespace, about.Name, about.UID)}, nil
	}
	if cached, ok := o.found.Get(about.UID); ok && about.UID != "" {
		return cached.([]Owner), nil
	}
	seen := map[types.UID]bool{}
	found, err := o.ofDependent(ctx, log, kind, types.NamespacedName{Namespace: about.Namespace, Name: about.Name}, about.UID, seen)
	if err != nil {
		return nil, err
	}
	if about.UID != "" {
		o.found.Add(about.UID, found, map[bool]time.Duration{true: cachedFor, false: noOwnerCachedFor}[len(found) > 0])
	}
	return found, nil
}

func (o *Owners) owner(namespace, name string, uid types.UID) Owner {
	if !o.namespaced {
		namespace = ""
	}
	return Owner{types.NamespacedName{Namespace: namespace, Name: name}, uid}
}

// ofDependent reads a dependent's metadata and follows its owner references.
func (o *Owners) ofDependent(
	ctx context.Context, log logr.Logger, kind schema.GroupKind, key types.NamespacedName, uid types.UID, seen map[types.UID]bool,
) (found []Owner, err error) {
	i := slices.IndexFunc(o.through, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == kind })
	if i < 0 || seen[uid] || len(seen) >= maxOwners {
		return nil, nil // the kind isn't declared, the object was already read, or there are too many
	}
	seen[uid] = true
	obj := &metav1.PartialObjectMetadata{}
	obj.SetGroupVersionKind(o.through[i])
	err = o.reader.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) || err == nil && uid != "" && obj.UID != uid {
		log.V(1).Info("The object of an Event, or one of its owners, no longer exists", "kind", kind.Kind, "namespace", key.Namespace, "name", key.Name)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, ref := range obj.OwnerReferences {
		if len(found) >= maxOwners || len(seen) >= maxOwners {
			log.V(1).Info("The object of an Event has too many owners; the others are ignored", "kind", kind.Kind, "namespace", key.Namespace, "name", key.Name)
			break
		}
		owner := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		if owner == o.kind {
			found = append(found, o.owner(obj.Namespace, ref.Name, ref.UID))
			continue
		}
		// This ends even if the references form a cycle, because objects that were already read are skipped.
		more, err := o.ofDependent(ctx, log, owner, types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}, ref.UID, seen)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}
