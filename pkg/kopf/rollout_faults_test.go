package kopf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

func (f *fleet) annotate(name, key, value string) {
	f.Helper()
	kopftest.Edit(f.T, f.Cluster, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}, func(obj configMap) {
		metav1.SetMetaDataAnnotation(&obj.ObjectMeta, key, value)
	})
}

var lateHour = rollout.Window{From: 22 * time.Hour, To: 23 * time.Hour}

// An object that is paused while it waits in the rollout must not take up a place for ever.
func TestRollout_PausedWhileWaiting(t *testing.T) {
	rolloutTest(t, 10, rollout.Options{MaxParallel: 1, Window: lateHour}, func(f *fleet) {
		f.upgrade(1)
		<-time.After(time.Minute)
		for i := range 8 {
			f.annotate(fmt.Sprintf("o%03d", i), kopf.PausedAnnotation, "true")
		}
		<-time.After(48 * time.Hour)
		f.expect(2, 1)
	})
}

// An object whose writes the API server rejects (a stricter schema) must not take up a place for ever, without a failure.
func TestRollout_RejectedEntry(t *testing.T) {
	rolloutTest(t, 10, rollout.Options{MaxParallel: 1}, func(f *fleet) {
		f.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return rejectPatches{next} })
		f.upgrade(1)
		<-time.After(5 * time.Hour)
		f.expect(9, 1)
	})
}

type rejectPatches struct{ next http.RoundTripper }

func (d rejectPatches) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/o004") {
		text, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonInvalid, Code: 422, Message: "invalid"})
		return &http.Response{StatusCode: http.StatusUnprocessableEntity, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: r}, err
	}
	return d.next.RoundTrip(r)
}

// With a webhook that removes the note, the operator must neither write for ever nor stop silently.
func TestRollout_DroppedEntry(t *testing.T) {
	rolloutTest(t, 4, rollout.Options{MaxParallel: 1}, func(f *fleet) {
		var patches atomic.Int32
		f.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return dropNotes{roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					patches.Add(1)
				}
				return next.RoundTrip(r)
			})}
		})
		f.upgrade(1)
		<-time.After(time.Hour)
		if n := patches.Load(); n > 20 {
			t.Errorf("%d patches in an hour", n) // 720, and no handler is called, and nothing is logged
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// People who opt out while the operator runs must not thereby cause the call.
func TestRollout_OptOutIsNoUpdate(t *testing.T) {
	rolloutTest(t, 10, rollout.Options{MaxParallel: 1, OptOut: "example.com/hold", Window: lateHour}, func(f *fleet) {
		f.upgrade(1)
		<-time.After(time.Minute)
		f.annotate("o001", "example.com/hold", "later")
		<-time.After(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		if slices.Contains(f.begun, "update of o001") {
			t.Error("opting out is an update, which has called the handler")
		}
	})
}

// A user's request must not wait for a rollout.
func TestRollout_RequestsDoNotWait(t *testing.T) {
	rolloutTest(t, 10, rollout.Options{MaxParallel: 1, Window: lateHour}, func(f *fleet) {
		f.upgrade(1)
		<-time.After(time.Minute)
		f.annotate("o003", "kopf.zalando.org/retry.apply", "now")
		<-time.After(time.Minute)
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "o003"}}
		if f.Get(t, obj); obj.Annotations["kopf.zalando.org/retry.apply"] != "" {
			t.Error("the request is not answered")
		}
	})
}

func TestRevision_ReservedID(t *testing.T) {
	ok := func(context.Context, *kopf.Request[configMap]) error { return nil }
	if err := kopf.SetupWithManager(newShardManager(t, kopftest.Memory(t)), kopf.For(&corev1.ConfigMap{}).OnUpdate("revision", ok, kopf.Revision(1))); err == nil {
		t.Error("the id revision is accepted, although its record has the key of the note")
	}
}

// Revisions of kinds at run time are not known at the start.
func TestWithRollout_ForKinds(t *testing.T) {
	ok := func(context.Context, *kopf.Request[configMap]) error { return nil }
	if err := kopf.SetupWithManager(newShardManager(t, kopftest.Memory(t)), kopf.ForKinds(kopf.Kinds("configmaps"), func(metav1.APIResource) kopf.Option {
		return kopf.For(&corev1.ConfigMap{}).OnUpdate("a", ok, kopf.Revision(1))
	}), kopf.WithRollout(rollout.Options{Namespace: "default"})); err != nil {
		t.Error(err)
	}
}

// RenamedFrom must take the number along.
func TestRevision_Renamed(t *testing.T) {
	revisionTest(t, func(w *revisionWorld) {
		w.upgrade(1, 0)
		w.Create(w.T, w.obj)
		w.expect("apply:create#0, field:create#0", "apply 1 (create)")
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		w.stop = runShard(w.T, w.Cluster, kopf.For(&corev1.ConfigMap{}).OnCreateOrUpdate("new", w.handler("new"), kopf.Revision(1), kopf.RenamedFrom("apply")))
		w.expect("", "apply 1 (create)") // the next write notes the new id
	})
}
