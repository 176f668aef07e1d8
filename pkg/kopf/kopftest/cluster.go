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

// A Cluster is an API server for operator tests, either in memory ([Memory]) or a real one ([Environment]).
type Cluster struct {
	// Client reads and writes without a cache and without injected faults. Use it for what a user would do.
	Client client.Client
	// Config connects to the server with all permissions, unless [Cluster.WithRights] restricts them.
	Config *rest.Config
	// Scheme contains the Go types of the objects.
	Scheme *runtime.Scheme
	// Namespace restricts the cluster's operators to one namespace, unless it is empty. See [Cluster.ForTest].
	Namespace string

	server       *apiserver.Server // server in memory; nil for a real server
	webhookSlots *webhookSlots     // slots for admission handlers on a real server; nil in memory
	mapper       meta.RESTMapper   // static mapper for a server in memory; nil for a real server
}

// Create creates objects, including their status, and updates objs to what is stored. It fails the test if it can't create one of them.
//
// In all methods, a namespaced object without a namespace gets the cluster's namespace, or "default" if the cluster has none.
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
			t.Fatalf("kopftest: encode the status of %s: %v", c.name(obj), err)
		}
		// A running operator may already have changed the object, so the patch carries no resourceVersion.
		err = c.Client.Status().Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, patch))
		if err != nil && !apierrors.IsNotFound(err) { // NotFound means that the kind has no subresource, so the status is already stored
			t.Fatalf("kopftest: setting the status of %s: %v", c.name(obj), err)
		}
		c.Get(t, obj)
	}
}

// Get reads an object by its name and namespace. It fails the test if the object doesn't exist.
func (c *Cluster) Get(t testing.TB, obj client.Object) {
	t.Helper()
	c.setDefaultNamespace(obj)
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		t.Fatalf("kopftest: reading %s: %v", c.name(obj), err)
	}
}

// Delete deletes objects. An object with finalizers stays until they are removed. Delete fails the test if an object doesn't exist.
func (c *Cluster) Delete(t testing.TB, objs ...client.Object) {
	t.Helper()
	for _, obj := range objs {
		c.setDefaultNamespace(obj)
		if err := c.Client.Delete(t.Context(), obj); err != nil {
			t.Fatalf("kopftest: deleting %s: %v", c.name(obj), err)
		}
	}
}

// Edit reads an object, calls change with it, and updates it, including its status. If the kind has the status subresource, a changed
// status takes a second request. After a conflict, Edit reads the object and calls change again; after 100 conflicts, it fails the test.
// When Edit returns, obj is what is stored.
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
	t.Fatalf("kopftest: updating %s: too many conflicts", c.name(obj))
}

// updateWithStatus updates an object. If the response shows that the server ignored the status, it updates the status subresource too.
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
		return errors.New("the API server dropped the status: the kind has no status subresource, and its schema has no such field")
	}
	return err
}

// statusField returns the status in its JSON form, or nil if the object has none.
func statusField(obj client.Object) (any, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	return runtime.DeepCopyJSONValue(content["status"]), nil
}

// Object returns a function that reads the object each time it is called. Use it with Gomega's Eventually and Consistently:
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

// setDefaultNamespace sets the namespace of a namespaced object that doesn't have one.
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

// connect returns a new connection, and a client that uses the connection.
func (c *Cluster) connect(t testing.TB) (*connection, client.Client) {
	t.Helper()
	l := &connection{}
	through, err := client.New(c.configFor(l), client.Options{Scheme: c.Scheme, Mapper: c.mapper})
	if err != nil {
		t.Fatalf("kopftest: create a client: %v", err)
	}
	return l, through
}

// configFor returns a config whose clients use the connection. They send JSON, because the connection can't decode protobuf.
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

// schemeOr returns the scheme, or the scheme of client-go if it is nil.
func schemeOr(scheme *runtime.Scheme) *runtime.Scheme {
	if scheme == nil {
		return clientgoscheme.Scheme
	}
	return scheme
}

// pollInterval is the interval between two checks while a test waits for a state.
const pollInterval = 20 * time.Millisecond
