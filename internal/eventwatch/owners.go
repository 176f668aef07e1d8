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

// maxOwners limits the objects that are read for one Event, and the owners that are found, because users may write any number of owner references.
const maxOwners = 200

const (
	maxCached        = 10_000           // maximum number of dependents whose owners are cached
	cachedFor        = 10 * time.Minute // time for which found owners are cached
	noOwnerCachedFor = time.Minute      // time for which the absence of owners is cached; the object may be adopted
)

// An Owner is an object that owns the object of an Event, or the object of the Event itself.
type Owner struct {
	Key types.NamespacedName
	UID types.UID // empty if the Event does not have it
}

// is reports whether two owners are the same object. A missing uid matches every uid.
func (o Owner) is(other Owner) bool {
	return o.Key == other.Key && (o.UID == other.UID || o.UID == "" || other.UID == "")
}

// Owners finds the objects of a kind that own other objects.
type Owners struct {
	reader     client.Reader
	kind       schema.GroupKind
	namespaced bool
	through    []schema.GroupVersionKind // the kinds of dependents, and the kinds between dependents and owners
	found      *cache.LRUExpireCache     // lists of owners, by the uid of the dependent
}

// NewOwners returns Owners that find objects of one kind. through contains the kinds of dependents, and the kinds between dependents and owners. reader must be
// able to read their metadata.
func NewOwners(reader client.Reader, kind schema.GroupKind, namespaced bool, through []schema.GroupVersionKind) *Owners {
	return &Owners{reader: reader, kind: kind, namespaced: namespaced, through: through, found: cache.NewLRUExpireCache(maxCached)}
}

// Of returns the objects that own the object of a reference, or the object itself if it has the kind. It returns no objects if an object in the chain of
// owner references does not exist.
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

// ofDependent reads the metadata of a dependent and follows its owner references.
func (o *Owners) ofDependent(
	ctx context.Context, log logr.Logger, kind schema.GroupKind, key types.NamespacedName, uid types.UID, seen map[types.UID]bool,
) (found []Owner, err error) {
	i := slices.IndexFunc(o.through, func(gvk schema.GroupVersionKind) bool { return gvk.GroupKind() == kind })
	if i < 0 || seen[uid] || len(seen) >= maxOwners {
		return nil, nil // the declaration does not contain the kind, or the object was read already
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
		// ofDependent skips objects that it has already read, so a cycle of references ends.
		more, err := o.ofDependent(ctx, log, owner, types.NamespacedName{Namespace: obj.Namespace, Name: ref.Name}, ref.UID, seen)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}
