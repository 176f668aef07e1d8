package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// waitingRecord is the record of a handler that waits for an hour.
var waitingRecord = fmt.Sprintf(`{"started":"2026-01-01T10:00:00.000000","delayed":%q,"purpose":"create","retries":2,"success":false,"failure":false,"message":"full"}`,
	time.Now().Add(time.Hour).UTC().Format(time.RFC3339))

func TestExplain_Queue(t *testing.T) {
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Create))
	e.states.Observe(obj, false)
	key := client.ObjectKeyFromObject(obj)
	for _, test := range []struct {
		name   string
		queued time.Duration // relative to now
		want   string
	}{
		{"queued later", time.Hour, ""},
		{"queued now", 0, ""},
		{"queued for a while", -time.Minute, "it has been in the queue for 1m0s, with 0 other objects"},
	} {
		e.states.MarkStarted(key)
		e.states.MarkQueuedAt(key, time.Now().Add(test.queued))
		waits := explainOne(t, e, obj).Waits
		if got := strings.Join(waits, "\n"); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: waits %q, want %q", test.name, waits, test.want)
		}
	}
}

func TestExplain_Predicates(t *testing.T) {
	handled := newObject(map[string]string{"kopf.zalando.org/last-handled-configuration": `{"data":{"color":"red"}}`})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	for _, test := range []struct {
		name      string
		obj       client.Object
		predicate bool // what the predicate returns
		reconcile bool
		want      bool
	}{
		{"rejected", newObject(nil), false, false, true},
		{"accepted", newObject(nil), true, false, false},
		{"rejected, and reconciled for another reason", newObject(nil), false, true, false},
		{"rejected, and nothing is due", handled, false, false, false},
	} {
		e, _ := explainable(t, newObject(nil), onReasons(cause.Create, cause.Update))
		handler := e.EventHandler(predicate.NewPredicateFuncs(func(client.Object) bool { return test.predicate }))
		handler.Create(t.Context(), event.CreateEvent{Object: test.obj}, queue)
		if test.reconcile {
			e.states.MarkStarted(client.ObjectKeyFromObject(test.obj))
		}
		x := explainOne(t, e, test.obj)
		if got := strings.Contains(strings.Join(x.Waits, "\n"), "WithPredicates"); got != test.want {
			t.Errorf("%s: cause %s, waits %q", test.name, x.Cause, x.Waits)
		}
	}
}

// An object vanishes if its deletion crosses the write of its finalizer. Its delete handlers are repeated from memory.
func TestExplain_VanishedObject(t *testing.T) {
	obj := newObject(nil)
	drop := onReasons(cause.Delete)
	drop.Do = func(context.Context, *invoke.Request) error { return errors.New("the backend is busy") }
	e, server := explainable(t, newObject(nil), drop, onReasons(cause.Create), onReasons(cause.Delete))
	server.obj.Name = "other"
	obj.Finalizers = []string{e.Finalizer}
	e.states.Observe(obj, false)
	e.states.GetOrCreate(obj.UID).Worker.SeenSinceStart = true
	e.states.MarkLeft(objectstate.LeftObject{Object: obj})
	if _, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}); err != nil {
		t.Fatal(err)
	}
	x := explainOne(t, e, obj)
	if x.Cause != "delete" || !x.Deleting || len(x.Waits) != 1 || len(x.Handlers) != 1 {
		t.Fatalf("cause %s, waits %q, handlers %+v", x.Cause, x.Waits, x.Handlers)
	}
	if h := x.Handlers[0]; h.ID != "h0" || h.State != explain.Waiting || h.Attempts != 1 || h.LastError != "the backend is busy" || h.Due == nil || h.Started == nil {
		t.Errorf("the handler is %+v", h)
	}
	want := statuspage.Object{
		Namespace: "default", Name: "one", Deleting: true, Unfinished: []statuspage.Unfinished{{Handler: "h0", State: explain.Waiting, Attempts: 1, Error: "the backend is busy"}},
	}
	if got := e.Status().Objects; len(got) != 1 || got[0].Name != want.Name || !got[0].Deleting || !slices.Equal(got[0].Unfinished, want.Unfinished) {
		t.Errorf("the table has %+v, want %+v", got, want)
	}
	if x := explainOne(t, e, server.obj); x.Cause == "delete" {
		t.Error("another object has the cause of the vanished one")
	}
}

func TestStatus_Looping(t *testing.T) {
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Create))
	e.states.Observe(obj, false)
	for _, looping := range []bool{false, true} {
		e.noteLoop(client.ObjectKeyFromObject(obj), looping)
		if got := e.Status().Objects; len(got) != 1 || got[0].Looping != looping {
			t.Errorf("the table has %+v, want Looping = %t", got, looping)
		}
	}
}

// The table contains progress that is not stored on the object.
func TestStatus_ProgressElsewhere(t *testing.T) {
	progress := map[string]any{"metadata": map[string]any{"annotations": map[string]any{"kopf.zalando.org/h0": waitingRecord}}}
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Create))
	e.states.Observe(obj, false)
	known := e.states.Get(obj.UID)
	for _, test := range []struct {
		name    string
		details *objectDetails
		want    []statuspage.Unfinished
	}{
		{"no worker has handled the object", nil, nil},
		{"no overlay", &objectDetails{Settled: true}, nil},
		{
			"overlay", &objectDetails{Memory: commit.Memory{Overlay: &commit.Overlay{Patch: progress}}},
			[]statuspage.Unfinished{{Handler: "h0", State: explain.Waiting, Attempts: 2, Error: "full"}},
		},
	} {
		known.Worker.Details = test.details
		if got := e.Status().Objects[0].Unfinished; !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
	known.Lock() // a worker reconciles the object
	if got := e.Status().Objects[0].Unfinished; got != nil {
		t.Errorf("got %+v without the lock", got)
	}
	known.Unlock()
}
