package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// fixedReader is an API server with one ConfigMap, which rejects writes.
type fixedReader struct {
	client.Client
	obj *corev1.ConfigMap
	err error
}

func (s *fixedReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.err != nil {
		return s.err
	}
	if key != client.ObjectKeyFromObject(s.obj) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	s.obj.DeepCopyInto(into.(*corev1.ConfigMap))
	return nil
}

func (s *fixedReader) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errors.New("writes are rejected")
}

func explainable(t *testing.T, obj *corev1.ConfigMap, handlers ...invoke.Handler) (*Engine, *fixedReader) {
	t.Helper()
	return explainableWith(t, obj, func(*Settings) {}, handlers...)
}

func explainableWith(t *testing.T, obj *corev1.ConfigMap, configure func(*Settings), handlers ...invoke.Handler) (*Engine, *fixedReader) {
	t.Helper()
	s := &fixedReader{obj: obj}
	kind := Kind{Name: "explain-" + t.Name(), GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), New: func() client.Object { return &corev1.ConfigMap{} }}
	for i, h := range handlers {
		id := fmt.Sprintf("h%d", i)
		if err := kind.Handlers.Add(id, id, &h); err != nil {
			t.Fatal(err)
		}
	}
	settings := Settings{
		Client: s, Cache: s, APIReader: s, Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""), Finalizer: "example.com/finalizer",
		Lifecycle: progress.AllAtOnce, Checkpoint: time.Minute,
	}
	configure(&settings)
	return New(settings, kind), s
}

func newObject(annotations map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", UID: "1", ResourceVersion: "7", Annotations: annotations}, Data: map[string]string{"color": "red"},
	}
}

func onReasons(reasons ...cause.Reason) invoke.Handler {
	h := invoke.Handler{Do: func(context.Context, *invoke.Request) error { return nil }}
	for _, r := range reasons {
		h.Reasons = append(h.Reasons, string(r))
	}
	return h
}

func explainOne(t *testing.T, e *Engine, obj client.Object) *explain.Explanation {
	t.Helper()
	x, err := e.Explain(t.Context(), client.ObjectKeyFromObject(obj))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExplain_CountsNoMetrics(t *testing.T) {
	obj := newObject(map[string]string{"kopf.zalando.org/h0": "no json", "kopf.zalando.org/last-handled-configuration": "{", "kopf.zalando.org/pinned-configuration": "{"})
	e, _ := explainable(t, obj, onReasons(cause.Create, cause.Update))
	explainOne(t, e, obj)
	families, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if n := metric.GetCounter().GetValue(); label.GetValue() == e.Name && n != 0 {
					t.Errorf("Explain has counted %s: %v", family.GetName(), n)
				}
			}
		}
	}
}

func TestExplain_ReportsUnreadableRecords(t *testing.T) {
	obj := newObject(map[string]string{"kopf.zalando.org/h0": "no json", "kopf.zalando.org/last-handled-configuration": "{"})
	e, _ := explainable(t, obj, onReasons(cause.Create, cause.Update))
	x := explainOne(t, e, obj)
	if len(x.Unknown) < 2 {
		t.Errorf("cause %s, unknown: %q; want the unreadable record and the unreadable last-handled configuration", x.Cause, x.Unknown)
	}
}

func TestExplain_ResumeHandlerOfNewObject(t *testing.T) {
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Resume), onReasons(cause.Create))
	x := explainOne(t, e, obj)
	if x.Cause != "create" || strings.Contains(x.Handlers[0].Why, "handled already") {
		t.Errorf("cause %s: %q; the object was never handled", x.Cause, x.Handlers[0].Why)
	}
}

func TestExplain_TimesOfRecords(t *testing.T) {
	obj := newObject(map[string]string{
		"kopf.zalando.org/h0": `{"started":"2026-01-01T10:00:00.000000","stopped":"2026-01-01T10:00:05.000000","purpose":"create","retries":2,"success":true,"failure":false}`,
	})
	e, _ := explainable(t, obj, onReasons(cause.Create), onReasons(cause.Create))
	handlers := explainOne(t, e, obj).Handlers
	began := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	if h := handlers[0]; h.Started == nil || !h.Started.Equal(began) || h.Ended == nil || !h.Ended.Equal(began.Add(5*time.Second)) {
		t.Errorf("the finished handler has the times %v and %v", h.Started, h.Ended)
	}
	if h := handlers[1]; h.Started != nil || h.Ended != nil {
		t.Errorf("the handler that has not begun has the times %v and %v", h.Started, h.Ended)
	}
}

func TestExplain_HidesAnnotationsInFields(t *testing.T) {
	for _, path := range [][]string{{"metadata", "annotations", "note"}, {"metadata", "annotations"}, {"metadata"}} {
		obj := newObject(map[string]string{"note": "confidential"})
		h := onReasons(cause.Create)
		h.Field = &match.FieldFilter{Path: path, Tests: []match.Test{func(any) bool { return false }}, Wanted: "Equal(x)"}
		e, _ := explainable(t, obj, h)
		text, _ := json.Marshal(explainOne(t, e, obj))
		if strings.Contains(string(text), "confidential") {
			t.Errorf("%v: %s", path, text)
		}
	}
}

func TestExplain_TwoAtTheSameTime(t *testing.T) {
	obj := newObject(nil)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	h := onReasons(cause.Create)
	var blocked atomic.Bool
	h.When = append(h.When, func(*invoke.Request) bool {
		if blocked.CompareAndSwap(false, true) {
			entered <- struct{}{}
			<-leave
		}
		return true
	})
	e, _ := explainable(t, obj, h)
	e.states.Observe(obj, true)
	done := make(chan struct{})
	go func() { defer close(done); explainOne(t, e, obj) }()
	<-entered
	if x := explainOne(t, e, obj); x.Running {
		t.Error("the explanation says that the operator reconciles the object, but only another explanation is running")
	}
	reconciled := make(chan struct{})
	go func() {
		defer close(reconciled)
		_, _ = e.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
	}()
	select {
	case <-reconciled:
	case <-time.After(2 * time.Second):
		t.Error("a worker waits for an explanation, whose predicate is running")
	}
	close(leave)
	<-done
	<-reconciled
}

// fragile is a type whose JSON form panics once.
type fragile struct {
	corev1.ConfigMap

	panics *bool
}

func (f *fragile) MarshalJSON() ([]byte, error) {
	if *f.panics {
		panic("no JSON form")
	}
	return json.Marshal(&f.ConfigMap)
}

func TestReconcile_AfterPanicInConversion(t *testing.T) {
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Create))
	panics := true
	e.states.Observe(&fragile{ConfigMap: *obj, panics: &panics}, true)
	attempt := func() error {
		_, err := e.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		return err
	}
	if err := attempt(); err == nil || err.Error() != "panic: no JSON form" {
		t.Fatalf("got the error %v, want the panic", err)
	}
	again := make(chan struct{})
	go func() { defer close(again); _ = attempt() }()
	select {
	case <-again:
	case <-time.After(3 * time.Second):
		t.Fatal("the state of the object is locked forever after a panic: its worker hangs")
	}
}

// An event handler, a daemon or a timer may create the memos of an object at any time.
func TestExplain_DoesNotRaceWithMemos(t *testing.T) {
	for range 200 {
		obj := newObject(nil)
		e, _ := explainable(t, obj, onReasons(cause.Create))
		e.states.Observe(obj, true)
		var wg sync.WaitGroup
		wg.Go(func() { explainOne(t, e, obj) })
		wg.Go(func() { e.Memos(obj.UID) })
		wg.Wait()
	}
}
