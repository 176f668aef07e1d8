package kopftest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

// A ClusterOption is a choice for a cluster.
type ClusterOption func(*clusterOptions)

type clusterOptions struct {
	scheme  *runtime.Scheme
	objects []client.Object
	crds    []string
}

// Types sets the scheme with the Go types. Default: that of client-go, which knows the built-in kinds.
func Types(scheme *runtime.Scheme) ClusterOption {
	return func(o *clusterOptions) { o.scheme = scheme }
}

// CRDs names files and folders with CustomResourceDefinitions. A real server installs them. One in memory takes the
// plurals, the scopes, the subresources and the schemas from them, which otherwise are guessed by the Go types.
func CRDs(paths ...string) ClusterOption {
	return func(o *clusterOptions) { o.crds = append(o.crds, paths...) }
}

// Objects are in the cluster from the beginning. One in memory takes them as they are, with status, finalizers,
// annotations and deletionTimestamp.
func Objects(objs ...client.Object) ClusterOption {
	return func(o *clusterOptions) { o.objects = append(o.objects, objs...) }
}

// Memory makes a cluster in memory, with all kinds that the scheme knows, and namespaces: no network, no processes, so that it can be used
// in a bubble of testing/synctest. See the package for what it does not do.
func Memory(t testing.TB, opts ...ClusterOption) *Cluster {
	t.Helper()
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
	if !slices.ContainsFunc(resources, func(r apiserver.Resource) bool { return r.GroupVersion.Group == "" && r.Kind == "Namespace" }) {
		resources = append(resources, apiserver.Resource{GroupVersion: corev1.SchemeGroupVersion, Kind: "Namespace", Plural: "namespaces", HasStatus: true, OfCluster: true})
	}
	if len(o.crds) > 0 {
		found := envtest.CRDInstallOptions{Paths: o.crds, ErrorIfPathMissing: true}
		if err := envtest.ReadCRDFiles(&found); err != nil {
			return nil, fmt.Errorf("reading the CRDs (look at the paths, which are relative to the folder of the test): %w", err)
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

// memoryFor makes a cluster with other objects, and with this one, if it has a name and a kind that the scheme knows: else it cannot be
// asked for.
func newInvocationCluster(t testing.TB, scheme *runtime.Scheme, obj client.Object, others []client.Object) *Cluster {
	t.Helper()
	scheme = schemeOr(scheme)
	if gvk, err := apiutil.GVKForObject(obj, scheme); err == nil && scheme.Recognizes(gvk) && obj.GetName() != "" {
		others = append(slices.Clone(others), obj)
	}
	return Memory(t, Types(scheme), Objects(others...))
}

// identify gives an object what the server has made up for it. One that is not there, as it has no name or no Go type, stays without.
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

// add puts an object into the server as it is.
func (c *Cluster) add(obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, c.Scheme)
	if err != nil {
		return fmt.Errorf("a %T cannot be put into the cluster (add its Go type to a scheme, and name that: by Types, by the Scheme of Given, or by WithScheme): %w", obj, err)
	}
	copied := obj.DeepCopyObject().(client.Object)
	copied.GetObjectKind().SetGroupVersionKind(gvk)
	c.setDefaultNamespace(copied)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(copied)
	if err != nil {
		return fmt.Errorf("the %T has no JSON form: %w", obj, err)
	}
	if err := c.server.Add(content); err != nil {
		return fmt.Errorf("%s %s cannot be put into the cluster (of a kind without a Go type in the scheme, name the CRD by CRDs): %w", gvk.Kind, copied.GetName(), err)
	}
	return nil
}

// mapperOf knows the kinds of a server without asking it.
func newRESTMapper(resources []apiserver.Resource) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, r := range resources {
		scope := meta.RESTScopeNamespace
		if r.OfCluster {
			scope = meta.RESTScopeRoot
		}
		gvr := r.GroupVersion.WithResource(r.Plural)
		mapper.AddSpecific(r.GroupVersion.WithKind(r.Kind), gvr, gvr, scope)
	}
	return mapper
}
