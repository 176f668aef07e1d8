package kopftest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
)

// A ClusterOption configures [Memory], [Environment] and [Main].
type ClusterOption func(*clusterOptions)

type clusterOptions struct {
	scheme  *runtime.Scheme
	objects []client.Object
	crds    []string
}

// Types sets the scheme with the Go types. Default: the scheme of client-go, which contains the built-in kinds.
func Types(scheme *runtime.Scheme) ClusterOption {
	return func(o *clusterOptions) { o.scheme = scheme }
}

// CRDs adds files and directories with CustomResourceDefinitions. [Environment] installs them in the API server. A cluster in memory takes
// plural names, scopes, the status subresource and schemas from them. For other kinds, names and the status subresource are derived from
// the Go types. Kinds without a CRD are namespaced, except for the cluster-scoped built-in kinds.
func CRDs(paths ...string) ClusterOption {
	return func(o *clusterOptions) { o.crds = append(o.crds, paths...) }
}

// Objects adds objects to the new cluster. A cluster in memory stores them unchanged, with status, finalizers, annotations and
// deletionTimestamp. An [Environment] creates them as a client would, so the API server may drop their status and deletionTimestamp.
func Objects(objs ...client.Object) ClusterOption {
	return func(o *clusterOptions) { o.objects = append(o.objects, objs...) }
}

// Memory returns a cluster in memory with all kinds of the scheme and of the CRDs. Since it needs no network and no other process, tests
// can use it in a testing/synctest bubble. The package documentation lists the limits of a cluster in memory.
//
// The first call in a bubble advances the clock by a few microseconds to a time with nanoseconds, so that a test notices, as with a real
// clock, that stored times lose them.
func Memory(t testing.TB, opts ...ClusterOption) *Cluster {
	t.Helper()
	clocks.MakeOdd()
	o := clusterOptions{}
	for _, opt := range opts {
		opt(&o)
	}
	c, err := newMemory(o)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	return c
}

func newMemory(o clusterOptions) (*Cluster, error) {
	scheme := schemeOr(o.scheme)
	resources := apiserver.FromScheme(scheme)
	for _, needed := range []apiserver.Resource{
		{GroupVersion: corev1.SchemeGroupVersion, Kind: "Namespace", Plural: "namespaces", HasStatus: true, ClusterScoped: true},
		{GroupVersion: eventsv1.SchemeGroupVersion, Kind: "Event", Plural: "events"}, // operators post Events, whatever their scheme is
	} {
		if !slices.ContainsFunc(resources, func(r apiserver.Resource) bool {
			return r.GroupVersion.Group == needed.GroupVersion.Group && r.Kind == needed.Kind
		}) {
			resources = append(resources, needed)
		}
	}
	if len(o.crds) > 0 {
		found := envtest.CRDInstallOptions{Paths: o.crds, ErrorIfPathMissing: true}
		if err := envtest.ReadCRDFiles(&found); err != nil {
			return nil, fmt.Errorf("read the CRDs (paths are relative to the directory of the test): %w", err)
		}
		resources = append(resources, apiserver.FromCRDs(found.CRDs...)...)
	}
	c := &Cluster{Scheme: scheme, server: apiserver.New(resources...)}
	c.Config = &rest.Config{Host: "http://in-memory", Transport: c.server, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}, QPS: -1}
	c.mapper = newRESTMapper(resources)
	var err error
	if c.Client, err = client.New(c.Config, client.Options{Scheme: scheme, Mapper: c.mapper}); err != nil {
		return nil, err
	}
	var problems []error
	for _, obj := range o.objects {
		problems = append(problems, c.add(obj))
	}
	return c, errors.Join(problems...)
}

// newInvocationCluster returns a cluster with the object of a call and other objects. It leaves out the call's object if that has no name,
// or if its kind isn't in the scheme.
func newInvocationCluster(t testing.TB, scheme *runtime.Scheme, obj client.Object, others []client.Object) *Cluster {
	t.Helper()
	scheme = schemeOr(scheme)
	if gvk, err := apiutil.GVKForObject(obj, scheme); err == nil && scheme.Recognizes(gvk) && obj.GetName() != "" {
		others = append(slices.Clone(others), obj)
	}
	return Memory(t, Types(scheme), Objects(others...))
}

// copyServerMetadata fills in an object's missing metadata from the stored object, if there is one.
func (c *Cluster) copyServerMetadata(t testing.TB, obj client.Object) {
	t.Helper()
	stored := obj.DeepCopyObject().(client.Object)
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), stored); err != nil {
		return
	}
	obj.SetUID(cmp.Or(obj.GetUID(), stored.GetUID()))
	obj.SetResourceVersion(cmp.Or(obj.GetResourceVersion(), stored.GetResourceVersion()))
	obj.SetGeneration(cmp.Or(obj.GetGeneration(), stored.GetGeneration()))
	if began := obj.GetCreationTimestamp(); began.IsZero() {
		obj.SetCreationTimestamp(stored.GetCreationTimestamp())
	}
}

func (c *Cluster) add(obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme)
	if err != nil {
		return fmt.Errorf("add a %T to the cluster (register its Go type in a scheme, and set that with Types, Given.Scheme or WithScheme): %w", obj, err)
	}
	copied := obj.DeepCopyObject().(client.Object)
	copied.GetObjectKind().SetGroupVersionKind(gvk)
	c.setDefaultNamespace(copied)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
	if err != nil {
		return fmt.Errorf("encode %T: %w", obj, err)
	}
	if err := c.server.Add(content); err != nil {
		return fmt.Errorf("add %s %s to the cluster (for a kind without a Go type in the scheme, set its CRD with CRDs): %w", gvk.Kind, copied.GetName(), err)
	}
	return nil
}

// newRESTMapper returns a static REST mapper, so that clients need no discovery.
func newRESTMapper(resources []apiserver.Resource) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, r := range resources {
		scope := meta.RESTScopeNamespace
		if r.ClusterScoped {
			scope = meta.RESTScopeRoot
		}
		gvr := r.GroupVersion.WithResource(r.Plural)
		mapper.AddSpecific(r.GroupVersion.WithKind(r.Kind), gvr, gvr, scope)
	}
	return mapper
}
