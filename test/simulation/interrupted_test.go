package simulation

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// SE-53: the context of a handler that starts after the deletion of its object is cancelled.
func TestCancelOnDelete_OfDeletedObjects(t *testing.T) {
	var cause atomic.Value
	widgets := kopf.For(&v1.Widget{}).
		OnCreate("quick", func(ctx context.Context, req *kopf.Request[widget]) error {
			must(t, req.Client.Delete(ctx, req.Object))
			wait(50 * time.Millisecond)
			return nil
		}).
		OnCreate("long", func(ctx context.Context, _ *kopf.Request[widget]) error {
			select {
			case <-ctx.Done():
				cause.Store("ended")
			case <-time.After(time.Minute):
				cause.Store("continued")
			}
			return ctx.Err()
		}, kopf.CancelOnDelete())
	play(t, widgets, func(t *testing.T, _ *scene) {
		wait(2 * time.Minute)
		if got := cause.Load(); got != nil && got != "ended" {
			t.Errorf("handler outcome = %v, want ended", got)
		}
	})
}

// PEER-53: if a change during a pause makes an object unmatched, the engine does not call its handler after the pause.
func TestPauses_UnmatchedHandlersDoNotStart(t *testing.T) {
	var bad, calls atomic.Int64
	widgets := kopf.For(&v1.Widget{}).Timer("t", daemons.Timer{Interval: 10 * time.Second}, func(_ context.Context, req *kopf.Request[widget]) error {
		calls.Add(1)
		if req.Object.Labels["off"] == "yes" {
			bad.Add(1)
		}
		return nil
	}, kopf.Label("off", filter.Absent))
	peers := &muxed{peers: apiserver.New(apiserver.Resource{
		GroupVersion: schema.GroupVersion{Group: "kopf.dev", Version: "v1"}, Kind: "KopfPeering", Plural: "kopfpeerings",
	})}
	alter := func(config *rest.Config) { peers.widgets = config.Transport; config.Transport = peers }
	playOn(t, alter, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
		dynamic, err := client.New(s.config, client.Options{Mapper: fixedMapper()})
		must(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{"namespace": namespace, "name": "default"},
		}}
		must(t, dynamic.Create(t.Context(), object))
		wait(15 * time.Second)
		freeze := func(text string) {
			must(t, dynamic.Patch(t.Context(), object.DeepCopy(), rawPatch(text)))
			wait(15 * time.Second)
		}
		freeze(`{"status":{"other":{"priority":100,"lifetime":600,"lastseen":"2000-01-01T00:00:15.000000"}}}`)
		s.patch(t, `{"metadata":{"labels":{"off":"yes"}}}`)
		wait(30 * time.Second)
		t.Log("paused")
		mark := calls.Load()
		wait(30 * time.Second)
		if calls.Load() != mark {
			t.Fatal("the handler was called during the pause")
		}
		freeze(`{"status":{"other":null}}`)
		if bad.Load() != 0 {
			t.Errorf("timer calls for an unmatched object = %d, want 0", bad.Load())
		}
	}, kopf.WithPeering(peering.Options{Namespaces: []string{namespace}, Identity: "one"})) // a named peering object needs no DNS request, which would block virtual time
}

// PEER-21: an operator that stops keeps its record until its handlers have finished and their outcomes are written. Otherwise, a peer would call the handlers
// again.
func TestPeering_KeepsItsRecordUntilHandlersHaveFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		peers := &muxed{widgets: config.Transport, peers: apiserver.New(apiserver.Resource{
			GroupVersion: schema.GroupVersion{Group: "kopf.dev", Version: "v1"}, Kind: "KopfPeering", Plural: "kopfpeerings",
		})}
		config.Transport = peers
		dynamic, err := client.New(config, client.Options{Mapper: fixedMapper()})
		must(t, err)
		meeting := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kopf.dev/v1", "kind": "KopfPeering", "metadata": map[string]any{"namespace": namespace, "name": "default"},
		}}
		must(t, dynamic.Create(t.Context(), meeting))
		hasRecord := func() bool {
			must(t, dynamic.Get(t.Context(), client.ObjectKeyFromObject(meeting), meeting))
			_, found, _ := unstructured.NestedMap(meeting.Object, "status", "one")
			return found
		}
		widgets := kopf.For(&v1.Widget{}).OnCreate("slow", func(context.Context, *kopf.Request[widget]) error {
			wait(20 * time.Second) // also after the end of its context
			return nil
		})
		makeWidget(t, users, "one")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runUntil(ctx, t, config, scheme, widgets, kopf.WithPeering(peering.Options{Namespaces: []string{namespace}, Identity: "one"}))
		}()
		wait(10 * time.Second)
		stop()
		wait(5 * time.Second)
		if !hasRecord() {
			t.Error("the record is removed while a handler is running")
		}
		<-ended
		if hasRecord() {
			t.Error("the record remains after the end of the operator")
		}
	})
}

func fixedMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(schema.GroupVersionKind{Group: "kopf.dev", Version: "v1", Kind: "KopfPeering"}, meta.RESTScopeNamespace)
	return m
}

// muxed is a transport that serves peering objects and widgets.
type muxed struct {
	widgets http.RoundTripper
	peers   *apiserver.Server
}

func (m *muxed) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/kopf.dev") {
		return m.peers.RoundTrip(r)
	}
	return m.widgets.RoundTrip(r)
}
