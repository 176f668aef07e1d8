package engine_test

import (
	"context"
	"encoding/json"
	"io"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// BenchmarkCycle measures the reconciles of one object for its creation, for an update, and for an event without a change. Creation and
// update include the reconcile for the event of the engine's own write. The API server is an object in memory, so that the engine, the
// decoding of answers, and the log remain.
func BenchmarkCycle(b *testing.B) {
	for _, form := range []struct {
		name  string
		empty func() client.Object
		edit  func(client.Object, int) // of the spec
		do    func(client.Object)      // what the handler does
	}{
		{
			name:  "typed",
			empty: func() client.Object { return &v1.Widget{} },
			edit:  func(obj client.Object, size int) { obj.(*v1.Widget).Spec.Size = size },
			do:    func(obj client.Object) { obj.(*v1.Widget).Status.Phase = "Ready" },
		},
		{
			name:  "unstructured",
			empty: func() client.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
			edit: func(obj client.Object, size int) {
				obj.(*unstructured.Unstructured).Object["spec"].(map[string]any)["size"] = int64(size)
			},
			do: func(obj client.Object) {
				obj.(*unstructured.Unstructured).Object["status"] = map[string]any{"phase": "Ready"}
			},
		},
	} {
		s := newServer(b, form.empty)
		created := s.stored
		e := newEngine(b, s, []func(client.Object){form.do})
		ctx := withLogger(b)
		pass := func(b *testing.B, writes int) {
			b.Helper()
			s.writes = 0
			for range min(2, 1+writes) { // one for the event of the last write
				if _, err := e.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.stored)}); err != nil {
					b.Fatal(err)
				}
			}
			if s.writes != writes {
				b.Fatalf("%d writes, want %d", s.writes, writes)
			}
		}
		pass(b, 2)
		handled := s.stored
		b.Run(form.name+"/create", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.put(created)
				pass(b, 2)
			}
		})
		s.put(handled)
		b.Run(form.name+"/noop", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pass(b, 0)
			}
		})
		b.Run(form.name+"/update", func(b *testing.B) {
			b.ReportAllocs()
			for size := 2; b.Loop(); size++ {
				form.edit(s.stored, size)
				s.put(s.stored)
				pass(b, 1) // the status is as it was
			}
		})
	}
}

// BenchmarkStatusPage measures the reconciles for the creation of an object, without the status page and with it. Nothing reads the page.
func BenchmarkStatusPage(b *testing.B) {
	for _, form := range []struct {
		name  string
		hooks []invoke.AttemptHook
	}{{"without", nil}, {"with", []invoke.AttemptHook{(&statuspage.Attempts{}).Begin}}} {
		b.Run(form.name, func(b *testing.B) {
			s := newServer(b, func() client.Object { return &v1.Widget{} })
			e := newEngine(b, s, []func(client.Object){func(obj client.Object) { obj.(*v1.Widget).Status.Phase = "Ready" }}, form.hooks...)
			measureCreation(b, s, e)
		})
	}
}

// BenchmarkHandlers measures the creation of an object with one, two and three handlers that change its status.
func BenchmarkHandlers(b *testing.B) {
	changes := []func(client.Object){
		func(obj client.Object) { obj.(*v1.Widget).Status.Phase = "Ready" },
		func(obj client.Object) { obj.(*v1.Widget).Status.Address = "10.0.0.1" },
		func(obj client.Object) { obj.(*v1.Widget).Status.Owner = "north" },
	}
	for n := range len(changes) {
		b.Run(strconv.Itoa(n+1), func(b *testing.B) {
			s := newServer(b, func() client.Object { return &v1.Widget{} })
			e := newEngine(b, s, changes[:n+1])
			measureCreation(b, s, e)
		})
	}
}

// measureCreation measures the reconciles for the creation of the object of a server.
func measureCreation(b *testing.B, s *server, e *engine.Engine) {
	created, ctx := s.stored, withLogger(b)
	b.ReportAllocs()
	for b.Loop() {
		s.put(created)
		for range 2 { // one for the event of the last write
			if _, err := e.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s.stored)}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// withLogger returns a context with a logger that discards its lines. As in a controller, the loggers of all reconciles have the same base.
func withLogger(b *testing.B) context.Context {
	return log.IntoContext(b.Context(), engine.LazyLogger(zap.New(zap.WriteTo(io.Discard))))
}

func newEngine(b *testing.B, s *server, changes []func(client.Object), hooks ...invoke.AttemptHook) *engine.Engine {
	kind := engine.Kind{Name: "widget", GVK: widgetGVK, New: s.empty, Results: []string{"status"}, HasStatus: true}
	for i, change := range changes {
		handler := invoke.Handler{
			Criteria: match.Criteria{Reasons: []string{string(cause.Create), string(cause.Update)}},
			Do: func(_ context.Context, call *invoke.Request) error {
				change(call.Object)
				return nil
			},
		}
		id := "provision" + strconv.Itoa(i)
		if err := kind.Handlers.Add(id, id, &handler); err != nil {
			b.Fatal(err)
		}
	}
	return engine.New(engine.Settings{
		Client: s, Cache: s, APIReader: s,
		Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""), Finalizer: "example.com/finalizer",
		Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute, AttemptHooks: hooks,
	}, kind)
}

var widgetGVK = v1.GroupVersion.WithKind("Widget")

// A server has one object. It reads and patches it as the real one does, and does nothing else.
type server struct {
	client.Client
	stored  client.Object
	empty   func() client.Object
	version int
	writes  int
}

// Its managedFields are what the server makes of it: converting an object is mostly that.
const manifest = `{
	"apiVersion": "bench.example.com/v1", "kind": "Widget",
	"metadata": {
		"name": "one", "namespace": "default", "uid": "6a4ff5f2-7c1e-4a7e-9d3b-0f1f0a2b3c4d", "generation": 1,
		"creationTimestamp": "2026-01-01T00:00:00Z",
		"labels": {"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "market"},
		"managedFields": [{
			"manager": "kubectl-create", "operation": "Update", "apiVersion": "bench.example.com/v1",
			"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {
				"f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/part-of": {}}},
				"f:spec": {
					".": {}, "f:args": {}, "f:image": {}, "f:size": {},
					"f:settings": {".": {}, "f:backup": {}, "f:region": {}, "f:tier": {}, "f:zone": {}}
				}
			}
		}, {
			"manager": "operator", "operation": "Update", "apiVersion": "bench.example.com/v1",
			"time": "2026-01-01T00:00:01Z", "fieldsType": "FieldsV1", "fieldsV1": {
				"f:metadata": {"f:annotations": {".": {}, "f:kopf.zalando.org/last-handled-configuration": {}}}
			}
		}]
	},
	"spec": {
		"size": 1, "image": "registry.example.com/team/app:v1.2.3",
		"args": ["--verbose", "--listen=:8080", "--workers=4"],
		"settings": {"region": "north", "tier": "gold", "backup": "daily", "zone": "a"}
	}
}`

func newServer(b *testing.B, empty func() client.Object) *server {
	s := &server{empty: func() client.Object {
		obj := empty()
		obj.GetObjectKind().SetGroupVersionKind(widgetGVK)
		return obj
	}}
	obj := s.empty()
	if err := json.Unmarshal([]byte(manifest), obj); err != nil {
		b.Fatal(err)
	}
	s.put(obj)
	return s
}

// put makes an object the present one, in a version of its own.
func (s *server) put(obj client.Object) {
	s.version++
	s.stored = obj.DeepCopyObject().(client.Object)
	s.stored.SetResourceVersion(strconv.Itoa(s.version))
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if key != client.ObjectKeyFromObject(s.stored) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "widgets"}, key.Name)
	}
	assign(into, s.stored.DeepCopyObject())
	return nil
}

func (s *server) Patch(_ context.Context, into client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(into)
	if err != nil {
		return err
	}
	if patch.Type() != types.MergePatchType {
		return apierrors.NewBadRequest("not a merge patch")
	}
	patched := s.stored.DeepCopyObject().(client.Object)
	if u, ok := patched.(*unstructured.Unstructured); ok {
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			return err
		}
		merge(u.Object, doc)
	} else if err := json.Unmarshal(data, patched); err != nil { // which merges: none of these patches removes anything
		return err
	}
	s.put(patched)
	s.writes++
	assign(into, s.stored.DeepCopyObject())
	return nil
}

func merge(into, doc map[string]any) {
	for key, value := range doc {
		inner, isMap := value.(map[string]any)
		if old, wasMap := into[key].(map[string]any); isMap && wasMap {
			merge(old, inner)
			continue
		}
		into[key] = value
	}
}

func assign(into client.Object, from runtime.Object) {
	switch into := into.(type) {
	case *v1.Widget:
		*into = *from.(*v1.Widget)
	case *unstructured.Unstructured:
		into.Object = from.(*unstructured.Unstructured).Object
	}
}

func (s *server) SubResource(string) client.SubResourceClient { return status{server: s} }

type status struct {
	client.SubResourceClient
	server *server
}

func (s status) Patch(ctx context.Context, into client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	return s.server.Patch(ctx, into, patch)
}

// BenchmarkStatus_PausedObjects measures the list of the status page for 100 000 objects that were never reconciled, because the annotation pauses them. Nothing is
// kept for their holds: they are computed for each list.
func BenchmarkStatus_PausedObjects(b *testing.B) {
	const count = 100_000
	e := newEngine(b, newServer(b, func() client.Object { return &v1.Widget{} }), []func(client.Object){func(client.Object) {}})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	informer := e.EventHandler()
	for n := range count {
		obj := &v1.Widget{}
		obj.Namespace, obj.Name, obj.UID, obj.ResourceVersion = "ns", strconv.Itoa(n), types.UID(strconv.Itoa(n)), strconv.Itoa(n+1)
		obj.Annotations = map[string]string{engine.PausedAnnotation: "true"}
		informer.Create(b.Context(), event.CreateEvent{Object: obj}, queue)
	}
	b.ReportAllocs()
	for b.Loop() {
		paused := 0
		for _, one := range e.Status().Objects {
			if one.Paused && len(one.Waits) == 1 {
				paused++
			}
		}
		if paused != count {
			b.Fatalf("%d objects are paused, want %d", paused, count)
		}
	}
}
