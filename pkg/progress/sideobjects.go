package progress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DefaultSideObjectPrefix is the default of Prefix in [SideObjects].
const DefaultSideObjectPrefix = "kopf-progress"

// SideObjects is a [Remote] that stores the progress of each object in a ConfigMap or a Secret named "<prefix>-<uid of the object>". This
// side object has an owner reference to the object, so it is garbage collected once the object is deleted. The operator needs permission to
// get, create, update and delete these ConfigMaps or Secrets, but doesn't watch them. If the operator itself handles ConfigMaps or Secrets,
// filter out the side objects. They have no labels, so a label filter is enough.
type SideObjects struct {
	// Client writes the side objects. Required.
	Client client.Client
	// Reader reads the side objects from the API server, without a cache. Use mgr.GetAPIReader(). Required.
	Reader client.Reader
	// Prefix is what the names start with. Operators that handle the same objects need different prefixes. Default:
	// [DefaultSideObjectPrefix].
	Prefix string
	// Namespace is where the side objects of cluster-scoped objects are stored. Required for cluster-scoped objects. The side object of a
	// namespaced object is always in the object's namespace.
	Namespace string
	// Secrets selects Secrets instead of ConfigMaps. Set it if some users of the namespace may read or write ConfigMaps, but not the
	// objects. Readers see the essence of the objects and the errors of handlers. Writers can forge Old in a request, and can cause or
	// prevent calls of handlers. An operator that handles Secrets, or objects with only a digest, must not use ConfigMaps.
	Secrets bool
}

const (
	sideObjectKey        = "progress.json"
	sideObjectAnnotation = "kopf-runtime.dev/progress-of"
)

// Check implements [Checker].
func (s *SideObjects) Check() error {
	switch {
	case s == nil:
		return errors.New("the SideObjects are nil: pass &progress.SideObjects{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}")
	case s.Client == nil:
		return errors.New("SideObjects has no Client: set it, for example to mgr.GetClient()")
	case s.Reader == nil:
		return errors.New("SideObjects has no Reader: set it to a reader without a cache, for example to mgr.GetAPIReader()")
	}
	if errs := validation.IsDNS1123Subdomain(cmp.Or(s.Prefix, DefaultSideObjectPrefix)); len(errs) > 0 {
		return fmt.Errorf("the prefix %q of SideObjects is not valid: %s", s.Prefix, errs[0])
	}
	return nil
}

// CheckConfidential implements [ConfidentialityChecker].
func (s *SideObjects) CheckConfidential() error {
	if s.Secrets {
		return nil
	}
	return errors.New("SideObjects stores the progress in ConfigMaps, which more users can read, and even a digest of a Secret lets them guess weak passwords: " +
		"set Secrets in SideObjects, or handle the kind in an operator without WithRemote, which stores only a digest on the objects")
}

// Load implements [Remote].
func (s *SideObjects) Load(ctx context.Context, obj client.Object) (Snapshot, error) {
	side, err := s.sideObject(obj)
	if err != nil {
		return Snapshot{}, err
	}
	if err := s.Reader.Get(ctx, client.ObjectKeyFromObject(side), side); err != nil {
		return Snapshot{}, client.IgnoreNotFound(err)
	}
	isOwner := func(ref metav1.OwnerReference) bool { return ref.UID == obj.GetUID() }
	switch {
	case side.GetDeletionTimestamp() != nil:
		return Snapshot{}, fmt.Errorf("the %s with the progress, %s, is being deleted: remove its finalizers %q", s.kind(), side.GetName(), side.GetFinalizers())
	case !slices.ContainsFunc(side.GetOwnerReferences(), isOwner):
		return Snapshot{}, fmt.Errorf("the %s %s does not belong to this object: delete it, or choose another prefix", s.kind(), side.GetName())
	}
	data := []byte(nil)
	switch side := side.(type) {
	case *corev1.ConfigMap:
		data = []byte(side.Data[sideObjectKey])
	case *corev1.Secret:
		data = side.Data[sideObjectKey]
	}
	return Snapshot{Data: data, Version: side.GetResourceVersion()}, nil
}

// Save implements [Remote].
func (s *SideObjects) Save(ctx context.Context, obj client.Object, snapshot Snapshot) (version string, err error) {
	side, err := s.sideObject(obj)
	if err != nil {
		return "", err
	}
	if len(snapshot.Data) == 0 {
		return "", s.delete(ctx, side, snapshot.Version)
	}
	gvk, err := apiutil.GVKForObject(obj, s.Client.Scheme())
	if err != nil {
		return "", fmt.Errorf("the object has no kind: %w", err)
	}
	side.SetResourceVersion(snapshot.Version)
	side.SetAnnotations(map[string]string{sideObjectAnnotation: gvk.GroupKind().String() + " " + client.ObjectKeyFromObject(obj).String()})
	side.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: obj.GetName(), UID: obj.GetUID(),
	}})
	switch side := side.(type) {
	case *corev1.ConfigMap:
		side.Data = map[string]string{sideObjectKey: string(snapshot.Data)}
	case *corev1.Secret:
		side.Data = map[string][]byte{sideObjectKey: snapshot.Data}
	}
	write := func() error { return s.Client.Update(ctx, side) }
	if snapshot.Version == "" {
		write = func() error { return s.Client.Create(ctx, side) }
	}
	if err := write(); err != nil {
		return "", asConflict(err)
	}
	return side.GetResourceVersion(), nil
}

func (s *SideObjects) delete(ctx context.Context, side client.Object, version string) error {
	if version == "" {
		return nil
	}
	return asConflict(s.Client.Delete(ctx, side, client.Preconditions{ResourceVersion: &version}))
}

// asConflict adds ErrConflict to errors that mean a different version is stored.
func asConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

func (s *SideObjects) kind() string {
	if s.Secrets {
		return "Secret"
	}
	return "ConfigMap"
}

// sideObject returns the object's ConfigMap or Secret, without content.
func (s *SideObjects) sideObject(obj client.Object) (client.Object, error) {
	meta := metav1.ObjectMeta{Namespace: cmp.Or(obj.GetNamespace(), s.Namespace), Name: cmp.Or(s.Prefix, DefaultSideObjectPrefix) + "-" + string(obj.GetUID())}
	switch {
	case obj.GetUID() == "":
		return nil, errors.New("the object has no uid: its progress can be stored only after it was created")
	case meta.Namespace == "":
		return nil, errors.New("SideObjects has no Namespace: set the namespace for the progress of cluster-scoped objects")
	case s.Secrets:
		return &corev1.Secret{ObjectMeta: meta}, nil
	}
	return &corev1.ConfigMap{ObjectMeta: meta}, nil
}
