package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const baselineAnnotation = "kopf.zalando.org/last-handled-configuration"

// guardedServer rejects widget patches that set kopf's annotations, as an admission policy does. It counts all widget
// patches.
type guardedServer struct {
	next http.RoundTripper

	mu       sync.Mutex
	open     bool
	patches  int
	rejected int
}

func (g *guardedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/widgets/one") {
		return g.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.patches++
	var patch struct {
		Metadata struct{ Annotations map[string]any }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		return nil, err
	}
	ours := func(key string) bool { return strings.Contains(key, "kopf.zalando.org/") }
	if g.open || !slices.ContainsFunc(slices.Collect(maps.Keys(patch.Metadata.Annotations)), ours) {
		return g.next.RoundTrip(r)
	}
	g.rejected++
	const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"no annotations here"}`
	return &http.Response{
		StatusCode: http.StatusUnprocessableEntity, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(refusal)),
	}, nil
}

func (g *guardedServer) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
}

// count returns the number of all patches and the number of rejected patches.
func (g *guardedServer) count() (patches, rejected int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.patches, g.rejected
}

// callList lists the calls of handlers, as "id:reason#attempt".
type callList struct {
	mu    sync.Mutex
	calls []string
}

func (r *callList) add(req *kopf.Request[widget], id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("%s:%s#%d", id, req.Reason, req.Attempt.Number))
}

// take returns the sorted calls since its last call.
func (r *callList) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := slices.Sorted(slices.Values(r.calls))
	r.calls = nil
	return calls
}

func (r *callList) expect(t *testing.T, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Errorf("calls =\n%q, want\n%q", got, want)
	}
}

var allCauses = []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}

// guarded returns widgets with three handlers. One handler fails twice for each cause, and another one changes the spec
// and the status.
func guarded(calls *callList, options ...kopf.ResourceOption) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}, options...).
		On("quick", allCauses, func(_ context.Context, req *kopf.Request[widget]) error {
			calls.add(req, "quick")
			return nil
		}).
		On("slow", allCauses, func(_ context.Context, req *kopf.Request[widget]) error {
			calls.add(req, "slow")
			if req.Attempt.Number < 2 {
				return kopf.Temporary(errors.New("not yet"), time.Minute)
			}
			return nil
		}).
		On("writer", allCauses, func(_ context.Context, req *kopf.Request[widget]) error {
			calls.add(req, "writer")
			req.Object.Spec.Color = "painted"
			req.Object.Status.Phase = "written"
			return nil
		})
}

func playGuarded(t *testing.T, widgets *kopf.Resource[widget], act func(t *testing.T, s *scene, g *guardedServer, box *mailbox)) {
	t.Helper()
	server, box := &guardedServer{}, &mailbox{}
	playOn(t, func(config *rest.Config) {
		box = intercept(config)
		server.next, config.Transport = config.Transport, server
	}, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) { act(t, s, server, box) })
}

// expectWarnings checks the number of Events that report unstored progress.
func expectWarnings(t *testing.T, box *mailbox, want int) {
	t.Helper()
	all := reasonsOf(box)
	if got := len(all) - len(slices.DeleteFunc(slices.Clone(all), func(one string) bool { return one == "ProgressNotStored Handle" })); got != want {
		t.Errorf("number of ProgressNotStored Events = %d, want %d; all Events: %q", got, want, all)
	}
}

func (s *scene) isDeleted(t *testing.T) bool {
	t.Helper()
	return apierrors.IsNotFound(s.users.Get(t.Context(), client.ObjectKeyFromObject(s.obj), &v1.Widget{}))
}

// B-31: while the server rejects the records, the engine calls due handlers and writes their changes, and users can
// delete the object.
func TestRejectedRecords_HandlersAndDeletionContinue(t *testing.T) {
	calls := &callList{}
	playGuarded(t, guarded(calls), func(t *testing.T, s *scene, g *guardedServer, box *mailbox) {
		wait(time.Hour)
		calls.expect(t, "quick:create#0", "slow:create#0", "slow:create#1", "slow:create#2", "writer:create#0")
		obj := s.now(t)
		if obj.Spec.Color != "painted" || obj.Status.Phase != "written" {
			t.Errorf("color and phase = %q and %q, want painted and written", obj.Spec.Color, obj.Status.Phase)
		}
		if len(obj.Annotations) > 0 {
			t.Errorf("annotations = %v, want none", obj.Annotations)
		}
		expectWarnings(t, box, 1)
		created, _ := g.count()
		if created > 12 {
			t.Errorf("number of patches for the creation = %d, want at most 12", created)
		}

		s.patch(t, `{"spec":{"size":2}}`)
		wait(time.Hour)
		calls.expect(t, "quick:update#0", "slow:update#0", "slow:update#1", "slow:update#2", "writer:update#0")
		updated, _ := g.count()
		if updated-created > 8 {
			t.Errorf("number of patches for the update = %d, want at most 8", updated-created)
		}

		must(t, s.users.Delete(t.Context(), s.obj.DeepCopy()))
		wait(time.Hour)
		calls.expect(t, "quick:delete#0", "slow:delete#0", "slow:delete#1", "slow:delete#2", "writer:delete#0")
		if !s.isDeleted(t) {
			t.Error("read of the deleted object succeeded, want not found")
		}
		deleted, _ := g.count()
		if deleted-updated > 10 {
			t.Errorf("number of patches for the deletion = %d, want at most 10", deleted-updated)
		}
	})
}

// When the server accepts the records again, the next write stores all of them and removes the condition.
func TestRejectedRecords_AreStoredLater(t *testing.T) {
	calls := &callList{}
	playGuarded(t, guarded(calls, kopf.WithConditions("Ready")), func(t *testing.T, s *scene, g *guardedServer, box *mailbox) {
		wait(time.Hour)
		calls.expect(t, "quick:create#0", "slow:create#0", "slow:create#1", "slow:create#2", "writer:create#0")
		expectConditions(t, s, "ProgressNotStored=True Rejected", "Ready=Unknown NotReported")
		before, _ := g.count()
		wait(10 * time.Hour)
		if after, _ := g.count(); after != before {
			t.Errorf("number of patches without a change = %d, want 0", after-before)
		}
		s.patchStatus(t, `{"status":{"phase":"by another client"}}`)
		wait(time.Hour)
		if after, _ := g.count(); after != before {
			t.Errorf("number of patches after a status change = %d, want 0", after-before)
		}

		g.set(true)
		s.patch(t, `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}`) // the essence does not contain this annotation
		wait(time.Hour)
		calls.expect(t)
		if got := s.now(t).Annotations[baselineAnnotation]; !strings.Contains(got, `"size":1`) || !strings.Contains(got, "painted") {
			t.Errorf("last-handled configuration = %q, want size 1 and color painted", got)
		}
		expectConditions(t, s, "Ready=Unknown NotReported")
		if after, _ := g.count(); after-before != 2 {
			t.Errorf("number of patches = %d, want 2 (annotations and condition)", after-before)
		}

		g.set(false)
		s.patch(t, `{"spec":{"size":2}}`)
		wait(30 * time.Second)
		calls.expect(t, "quick:update#0", "slow:update#0", "writer:update#0")
		g.set(true)
		wait(time.Hour)
		calls.expect(t, "slow:update#1", "slow:update#2")
		if got := s.now(t).Annotations; len(got) != 3 || !strings.Contains(got[baselineAnnotation], `"size":2`) {
			t.Errorf("annotations = %v, want 3 with a baseline of size 2", got)
		}
		expectConditions(t, s, "Ready=Unknown NotReported")
		expectWarnings(t, box, 2)
	})
}

// An edit between two handlers of a cycle causes a separate update, even if the server rejects the records and the pin.
func TestRejectedRecords_EditsAreNotLost(t *testing.T) {
	calls := &callList{}
	playGuarded(t, guarded(calls), func(t *testing.T, s *scene, _ *guardedServer, _ *mailbox) {
		wait(90 * time.Second)
		calls.expect(t, "quick:create#0", "slow:create#0", "slow:create#1", "writer:create#0")
		s.patch(t, `{"spec":{"size":2}}`)
		wait(time.Hour)
		calls.expect(t, "quick:update#0", "slow:create#2", "slow:update#0", "slow:update#1", "slow:update#2", "writer:update#0")
	})
}

// If another client, such as an active peer, changes the stored records, the engine discards its records in memory.
func TestRejectedRecords_AnotherClientContinues(t *testing.T) {
	calls := &callList{}
	playGuarded(t, guarded(calls, kopf.WithConditions("Ready")), func(t *testing.T, s *scene, g *guardedServer, _ *mailbox) {
		wait(30 * time.Second)
		calls.expect(t, "quick:create#0", "slow:create#0", "writer:create#0")
		g.set(true)
		s.patch(t, `{"metadata":{"annotations":{"`+baselineAnnotation+`":"{\"spec\":{\"size\":1,\"color\":\"painted\"}}"}}}`)
		wait(time.Hour)
		calls.expect(t)
		expectConditions(t, s, "Ready=Unknown NotReported")
	})
}

// A new process does not know the rejected records. It calls the handlers again and does not lose a change.
func TestRejectedRecords_Restart(t *testing.T) {
	calls := &callList{}
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		server := &guardedServer{next: config.Transport}
		config.Transport = server
		obj := makeWidget(t, users, "one")
		runFor(t, config, scheme, 30*time.Second, guarded(calls))
		calls.expect(t, "quick:create#0", "slow:create#0", "writer:create#0")
		runFor(t, config, scheme, time.Hour, guarded(calls))
		calls.expect(t, "quick:create#0", "slow:create#0", "slow:create#1", "slow:create#2", "writer:create#0")
		patch(t.Context(), t, users, obj, `{"spec":{"size":2}}`)
		server.set(true)
		runFor(t, config, scheme, time.Hour, guarded(calls))
		calls.expect(t, "quick:create#0", "slow:create#0", "slow:create#1", "slow:create#2", "writer:create#0")
		must(t, users.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
		if got := obj.Annotations[baselineAnnotation]; !strings.Contains(got, `"size":2`) {
			t.Errorf("last-handled configuration = %q, want size 2", got)
		}
		runFor(t, config, scheme, time.Hour, guarded(calls))
		calls.expect(t)
	})
}
