package kopftest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
)

// A Cluster is an API server that operators are tested on: in memory ([Memory]), or a real one ([Environment]).
type Cluster struct {
	// Client leads straight to the server, without a cache, and past all faults: it is that of the users.
	Client client.Client
	// Config is the way to the server, with all rights.
	Config *rest.Config
	// Scheme has the Go types.
	Scheme *runtime.Scheme
	// Namespace is the one that operators of this cluster are confined to; empty: none. See [Cluster.ForTest].
	Namespace string

	server       *apiserver.Server // nil: it is a real one
	webhookSlots *webhookSlots     // of a real one
	mapper       meta.RESTMapper   // nil: the server is asked
}

// Create creates objects, with their status, if they have one. It fails the test if it cannot. The objects are updated to
// what was stored.
//
// Here, and in the other methods: an object that names no namespace, and needs one, is in that of the cluster, or else in
// "default".
func (c *Cluster) Create(t testing.TB, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		c.setDefaultNamespace(obj)
		wanted := obj.DeepCopyObject().(client.Object)
		if err := c.Client.Create(t.Context(), obj); err != nil {
			t.Fatalf("kopftest: creating %s: %v", c.name(obj), err)
		}
		status, _ := toContent(t, wanted)["status"].(map[string]any)
		if len(status) == 0 {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			t.Fatalf("kopftest: the status of %s has no JSON form: %v", c.name(obj), err)
		}
		// An operator that runs may have written in between: no version is asked for.
		err = c.Client.Status().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, patch))
		if err != nil && !apierrors.IsNotFound(err) { // without the subresource, it is there already
			t.Fatalf("kopftest: setting the status of %s: %v", c.name(obj), err)
		}
		c.Get(t, obj)
	}
}

// Get reads an object, by its name, in the cluster's namespace if it names none. It fails the test if it is not there.
func (c *Cluster) Get(t testing.TB, obj client.Object) {
	t.Helper()
	c.setDefaultNamespace(obj)
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatalf("kopftest: reading %s: %v", c.name(obj), err)
	}
}

// Delete asks for the deletion of objects. They stay for as long as they have finalizers. It fails the test if one is not
// there.
func (c *Cluster) Delete(t testing.TB, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		c.setDefaultNamespace(obj)
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatalf("kopftest: deleting %s: %v", c.name(obj), err)
		}
	}
}

// Edit reads an object, calls change with it and updates it, including the status, which takes a second request if the
// kind has the status subresource. After a conflict, it reads the object and calls change again. obj becomes what is stored.
func Edit[T client.Object](t testing.TB, c *Cluster, obj T, change func(T)) {
	t.Helper()
	for range 100 {
		c.Get(t, obj)
		change(obj)
		err := updateWithStatus(t.Context(), c.Client, obj)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatalf("kopftest: updating %s: %v", c.name(obj), err)
		}
	}
	t.Fatalf("kopftest: updating %s: others are always quicker", c.name(obj))
}

// updateWithStatus updates an object, and its status if the answer shows that the update has ignored that.
func updateWithStatus(ctx context.Context, c client.Client, obj client.Object) error {
	wanted, err := statusField(obj)
	if err != nil {
		return err
	}
	if err := c.Update(ctx, obj); err != nil {
		return err
	}
	stored, err := statusField(obj)
	if err != nil || equality.Semantic.DeepEqual(wanted, stored) {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	if content["status"] = wanted; wanted == nil {
		delete(content, "status")
	}
	if err := setContent(obj, content); err != nil {
		return err
	}
	err = c.Status().Update(ctx, obj)
	if apierrors.IsNotFound(err) {
		return errors.New("the API server drops the change of the status: the kind has no status subresource, and its schema no such field")
	}
	return err
}

// statusField returns the status in its JSON form; nil if there is none.
func statusField(obj client.Object) (any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	return runtime.DeepCopyJSONValue(content["status"]), nil
}

// Object reads an object anew with each call: for gomega's Eventually and Consistently.
//
//	Eventually(kopftest.Object(t, cluster, db)).Should(kopftest.HaveHandled())
func Object[T client.Object](t testing.TB, c *Cluster, obj T) func() (T, error) {
	c.setDefaultNamespace(obj)
	return func() (T, error) {
		fresh := obj.DeepCopyObject().(T)
		err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), fresh)
		return fresh, err
	}
}

// place puts an object that names no namespace, and needs one, into that of the cluster, or into "default".
func (c *Cluster) setDefaultNamespace(obj client.Object) {
	if obj.GetNamespace() != "" {
		return
	}
	if namespaced, err := c.Client.IsObjectNamespaced(obj); err == nil && namespaced {
		obj.SetNamespace(cmp.Or(c.Namespace, metav1.NamespaceDefault))
	}
}

func (c *Cluster) name(obj client.Object) string {
	kind := fmt.Sprintf("%T", obj)
	if gvk, err := c.Client.GroupVersionKindFor(obj); err == nil {
		kind = gvk.Kind
	}
	return fmt.Sprintf("%s %s", kind, client.ObjectKeyFromObject(obj))
}

// connect makes a link of its own, with a client.
func (c *Cluster) connect(t testing.TB) (*connection, client.Client) {
	t.Helper()
	l := &connection{}
	through, err := client.New(c.configFor(l), client.Options{Scheme: c.Scheme, Mapper: c.mapper})
	if err != nil {
		t.Fatalf("kopftest: making a client: %v", err)
	}
	return l, through
}

// linked is the config of those who go over a link. What they send is JSON, which can be read.
func (c *Cluster) configFor(l *connection) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.ContentType = runtime.ContentTypeJSON
	config.QPS = -1
	config.Wrap(l.transport)
	if l.wrap != nil {
		config.Wrap(transport.WrapperFunc(l.wrap))
	}
	return config
}

// schemeOr is the scheme that is to be used if none is named.
func schemeOr(scheme *runtime.Scheme) *runtime.Scheme {
	if scheme == nil {
		return clientgoscheme.Scheme
	}
	return scheme
}

// pollInterval is how often a state is looked at that is waited for.
const pollInterval = 20 * time.Millisecond
