package simulation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	peeringv1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// operatorPair is two operators for one widget. Before a pause, the writes of the operator with the lower priority fail.
type operatorPair struct {
	t       *testing.T
	config  *rest.Config
	scheme  *runtime.Scheme
	users   client.Client
	meeting *unstructured.Unstructured
	obj     widget
	link    *broken // link of the operator with the lower priority
	server  http.RoundTripper

	mu    sync.Mutex
	calls []string // handler and size of each call
}

// writeResult is the outcome of a write.
type writeResult int

const (
	passes writeResult = iota
	fails
	isLost // the write succeeds, but its response is lost
)

// broken is a transport that sets the result of widget patches and records the successful patches.
type broken struct {
	http.RoundTripper
	mu     sync.Mutex
	decide func(path, body string) writeResult
	passed []string
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/widgets/") {
		return b.RoundTripper.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.mu.Lock()
	defer b.mu.Unlock()
	result := passes
	if b.decide != nil {
		result = b.decide(r.URL.Path, string(body))
	}
	if result == fails {
		return nil, errors.New("simulated connection failure")
	}
	b.passed = append(b.passed, string(body))
	answer, err := b.RoundTripper.RoundTrip(r)
	if result == isLost && err == nil {
		return nil, errors.Join(errors.New("simulated loss of a response"), answer.Body.Close())
	}
	return answer, err
}

func (b *broken) set(decide func(path, body string) writeResult) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decide = decide
}

func cut(string, string) writeResult { return fails }

// failSecondRequest passes only the first of the two requests of a write with a status.
func failSecondRequest(path, _ string) writeResult {
	if strings.HasSuffix(path, "/status") {
		return passes
	}
	return fails
}

func (b *broken) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.passed)
}

// playTwoOperators runs the operator with the lower priority and then the steps of the test.
func playTwoOperators(t *testing.T, low func(*operatorPair) *kopf.Resource[widget], act func(*operatorPair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		s := &operatorPair{t: t, config: withPeerings(config), scheme: scheme, users: users, server: config.Transport, meeting: &unstructured.Unstructured{}}
		s.meeting.SetGroupVersionKind(schema.GroupVersionKind{Group: peeringv1.Group, Version: peeringv1.Version, Kind: "KopfPeering"})
		s.meeting.SetNamespace(namespace)
		s.meeting.SetName("default")
		other, err := client.New(s.config, client.Options{Scheme: scheme})
		must(t, err)
		must(t, other.Create(t.Context(), s.meeting))
		s.obj = makeWidget(t, users, "one")
		s.link = &broken{RoundTripper: s.config.Transport}
		own := rest.CopyConfig(s.config)
		own.Transport = s.link
		end := s.startOperator(own, "low", 0, low(s))
		wait(5 * time.Second)
		act(s)
		end()
	})
}

func (s *operatorPair) startOperator(config *rest.Config, identity string, priority int, widgets *kopf.Resource[widget]) (end func()) {
	ctx, stop := context.WithCancel(s.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runUntil(ctx, s.t, config, s.scheme, widgets, kopf.WithPeering(peering.Options{
			Namespaces: []string{namespace}, Identity: identity, Priority: priority, Mandatory: true,
		}))
	}()
	return func() { stop(); <-ended; synctest.Wait() }
}

func (s *operatorPair) called(who string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf("%s %d", who, size))
}

func (s *operatorPair) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// phaseHandler returns a handler that writes the name of its operator and the handled size into the status.
func (s *operatorPair) phaseHandler(who string) kopf.Handler[widget] {
	return func(_ context.Context, req *kopf.Request[widget]) error {
		s.called(who, req.Object.Spec.Size)
		req.Object.Status.Phase = fmt.Sprintf("%s %d", who, req.Object.Spec.Size)
		return nil
	}
}

func (s *operatorPair) resize(size int) {
	patch(s.t.Context(), s.t, s.users, s.obj, fmt.Sprintf(`{"spec":{"size":%d}}`, size))
	wait(5 * time.Second)
}

func (s *operatorPair) now() widget {
	obj := s.obj.DeepCopy()
	must(s.t, s.users.Get(s.t.Context(), client.ObjectKeyFromObject(obj), obj))
	return obj
}

// setPeerRecord writes a peering record as a user and waits until the operator has received it.
func (s *operatorPair) setPeerRecord(status string) {
	s.record(status)
	wait(5 * time.Second)
}

func (s *operatorPair) record(status string) {
	other, err := client.New(s.config, client.Options{Scheme: s.scheme})
	must(s.t, err)
	must(s.t, other.Patch(s.t.Context(), s.meeting.DeepCopy(), rawPatch(fmt.Sprintf(`{"status":{"ann":%s}}`, status))))
}

const pausingRecord = `{"priority":100,"lifetime":6000}`

func (s *operatorPair) expect(phase string, calls ...string) {
	s.t.Helper()
	if got := s.now().Status.Phase; got != phase {
		s.t.Errorf("phase = %q, want %q", got, phase)
	}
	if got := s.all(); !slices.Equal(got, calls) {
		s.t.Errorf("calls = %q, want %q", got, calls)
	}
}

func onUpdates(s *operatorPair, who string) *kopf.Resource[widget] {
	return kopf.For(&v1.Widget{}).OnUpdate("update", s.phaseHandler(who))
}

func lowUpdates(s *operatorPair) *kopf.Resource[widget] { return onUpdates(s, "low") }

// PEER-53, PEER-55: after a pause, the operator does not repeat a failed write if it would overwrite changes of a peer. Some of the failed writes are
// partly stored.
func TestPause_KeepsChangesOfPeers(t *testing.T) {
	for name, link := range map[string]func(string, string) writeResult{"nothing was written": cut, "the status was written": failSecondRequest} {
		t.Run(name, func(t *testing.T) {
			playTwoOperators(t, lowUpdates, func(s *operatorPair) {
				s.link.set(link)
				s.resize(2)
				end := s.startOperator(s.config, "high", 1, onUpdates(s, "high"))
				wait(5 * time.Second)
				s.resize(3)
				s.link.set(nil)
				before := len(s.link.all())
				end()
				wait(10 * time.Minute)
				s.expect("high 3", "low 2", "high 2", "high 3")
				if late := s.link.all()[before:]; len(late) > 0 {
					t.Errorf("writes after the pause = %s, want none", late)
				}
				s.resize(4)
				s.expect("low 4", "low 2", "high 2", "high 3", "low 4")
			})
		})
	}
}

// PEER-53: without concurrent changes, the operator writes the outcomes after the pause. It calls no handler again for the same change.
func TestPause_KeepsOutcomes(t *testing.T) {
	for name, link := range map[string]func(string, string) writeResult{"nothing was written": cut, "the status was written": failSecondRequest} {
		t.Run(name, func(t *testing.T) {
			playTwoOperators(t, lowUpdates, func(s *operatorPair) {
				s.link.set(link)
				s.resize(2)
				s.setPeerRecord(pausingRecord)
				patch(t.Context(), t, s.users, s.obj, `{"metadata":{"labels":{"by":"user"}}}`)
				s.link.set(nil)
				s.setPeerRecord("null")
				wait(10 * time.Minute)
				s.expect("low 2", "low 2", "low 2") // the size and the label cause one call each
			})
		})
	}
}

// PEER-53: the operator continues a peer's cycle from the peer's progress.
func TestPause_ContinuesCyclesOfPeers(t *testing.T) {
	both := func(s *operatorPair, who string, busy bool) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).
			OnUpdate("first", func(ctx context.Context, req *kopf.Request[widget]) error {
				return s.phaseHandler(who+" first")(ctx, req)
			}).
			OnUpdate("second", func(_ context.Context, req *kopf.Request[widget]) error {
				s.called(fmt.Sprint(who, " second, attempt ", req.Attempt.Number), req.Object.Spec.Size)
				if busy {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			})
	}
	playTwoOperators(t, func(s *operatorPair) *kopf.Resource[widget] { return both(s, "low", false) }, func(s *operatorPair) {
		s.link.set(cut)
		s.resize(2)
		end := s.startOperator(s.config, "high", 1, both(s, "high", true))
		wait(5 * time.Second)
		s.link.set(nil)
		end()
		wait(10 * time.Minute)
		s.expect("high first 2", "low first 2", "low second, attempt 0 2", "high first 2", "high second, attempt 0 2", "low second, attempt 1 2")
	})
}

// PEER-53: the operator calls reconcile handlers again after a pause and does not repeat their failed writes.
func TestPause_CallsReconcileHandlersAgain(t *testing.T) {
	levels := func(s *operatorPair, who string) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).OnReconcile("level", func(_ context.Context, req *kopf.Request[widget]) error {
			s.called(who, req.Object.Spec.Size)
			if req.Object.Spec.Size > 1 {
				req.Object.Status.Phase = fmt.Sprintf("%s %d", who, req.Object.Spec.Size)
			}
			return nil
		})
	}
	playTwoOperators(t, func(s *operatorPair) *kopf.Resource[widget] { return levels(s, "low") }, func(s *operatorPair) {
		s.link.set(cut)
		s.resize(2)
		end := s.startOperator(s.config, "high", 1, levels(s, "high"))
		wait(5 * time.Second)
		s.resize(3)
		s.link.set(nil)
		end()
		wait(10 * time.Minute)
		if got := s.now().Status.Phase; got != "low 3" {
			t.Errorf("phase = %q, want low 3", got)
		}
		for _, body := range s.link.all() {
			if strings.Contains(body, "low 2") {
				t.Errorf("writes after the pause = %s, want none", body)
			}
		}
	})
}

// PEER-54: the operator repeats the last write of a deletion after the pause, unless a peer handles the deletion.
func TestPause_FinishesDeletions(t *testing.T) {
	deletes := func(s *operatorPair, who string, busy bool) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).OnDelete("delete", func(_ context.Context, req *kopf.Request[widget]) error {
			s.called(fmt.Sprint(who, " attempt ", req.Attempt.Number), req.Object.Spec.Size)
			if busy {
				return kopf.Temporary(errors.New("busy"), time.Minute)
			}
			return nil
		})
	}
	low := func(s *operatorPair) *kopf.Resource[widget] { return deletes(s, "low", false) }
	for name, test := range map[string]struct {
		pause func(*operatorPair)
		calls []string
	}{
		"without a peer": {func(s *operatorPair) { s.setPeerRecord(pausingRecord); s.link.set(nil); s.setPeerRecord("null") }, []string{"low attempt 0 1"}},
		"with a peer": {func(s *operatorPair) {
			end := s.startOperator(s.config, "high", 1, deletes(s, "high", true))
			wait(5 * time.Second)
			s.link.set(nil)
			end()
		}, []string{"low attempt 0 1", "high attempt 0 1", "low attempt 1 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			playTwoOperators(t, low, func(s *operatorPair) {
				s.link.set(cut)
				must(t, s.users.Delete(t.Context(), s.obj.DeepCopy()))
				wait(5 * time.Second)
				test.pause(s)
				wait(10 * time.Minute)
				if err := s.users.Get(t.Context(), client.ObjectKeyFromObject(s.obj), s.obj.DeepCopy()); client.IgnoreNotFound(err) != nil || err == nil {
					t.Errorf("read of the object returned %v, want not found", err)
				}
				if got := s.all(); !slices.Equal(got, test.calls) {
					t.Errorf("calls = %q, want %q", got, test.calls)
				}
			})
		})
	}
}

// PEER-53: the operator accepts a last-handled configuration that a peer has stored, even if the operator stored an equal one earlier. The engine
// does not detect this as a rollback.
func TestPause_AcceptsBaselinesOfPeers(t *testing.T) {
	pinned := func(s *operatorPair, who string) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).OnUpdate("update", func(_ context.Context, req *kopf.Request[widget]) error {
			s.called(fmt.Sprintf("%s %d to", who, req.Old.Spec.Size), req.Object.Spec.Size)
			return nil
		})
	}
	low := func(s *operatorPair) *kopf.Resource[widget] { return pinned(s, "low") }
	pauseWithEdits := func(s *operatorPair) (end func()) {
		s.resize(2)
		end = s.startOperator(s.config, "high", 1, pinned(s, "high"))
		wait(5 * time.Second)
		s.resize(1)
		return end
	}
	t.Run("an edit after the pause is an update", func(t *testing.T) {
		playTwoOperators(t, low, func(s *operatorPair) {
			pauseWithEdits(s)()
			wait(10 * time.Minute)
			s.resize(3)
			s.expect("", "low 1 to 2", "high 2 to 1", "low 1 to 3")
		})
	})
	t.Run("an edit during a pause is an update", func(t *testing.T) {
		playTwoOperators(t, low, func(s *operatorPair) {
			end := pauseWithEdits(s)
			s.setPeerRecord(pausingRecord)
			s.resize(2) // this operator has handled the same size last
			end()
			s.setPeerRecord("null")
			wait(10 * time.Minute)
			s.expect("", "low 1 to 2", "high 2 to 1", "low 1 to 2")
		})
	})
}
