package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type recorder struct{ posted int }

func (r *recorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) { r.posted++ }

// What is remembered of the Events about 50 000 objects goes, whether the objects live on or not, and without another Event.
func TestEvents_NothingIsRememberedForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		r := &recorder{}
		e := New(Settings{
			Recorder: r, AggregatesEvents: true, Log: logr.Discard(), Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""),
		}, Kind{Name: "configmap"})
		queue := priorityqueue.New[reconcile.Request](t.Name())
		if err := e.Promoter(1).Start(ctx, queue); err != nil {
			t.Fatal(err)
		}
		const objects = 50_000
		for n := range objects {
			obj := &corev1.ConfigMap{}
			obj.Name, obj.UID = fmt.Sprint("one-", n), types.UID(fmt.Sprint(n))
			e.events.Post(obj, eventrecorder.Detail, "Normal", "Made", "Make", "it was made")
		}
		if n := e.events.Limiter.Len(); r.posted != objects || n != objects {
			t.Errorf("%d Events are posted, and %d objects remembered, want %d", r.posted, n, objects)
		}
		<-time.After(14 * time.Minute)
		synctest.Wait()
		if n := e.events.Limiter.Len(); n != 0 {
			t.Errorf("%d objects are remembered", n)
		}
		stop()
		queue.ShutDown()
	})
}
