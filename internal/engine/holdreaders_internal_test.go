package engine

import (
	"context"
	"math/bits"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/background"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/shards"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

// fixedScope is a Scope and a Pauser.
type fixedScope struct{ in, admits, paused bool }

func (s fixedScope) InScope(types.NamespacedName) bool { return s.in }
func (s fixedScope) Admits(types.NamespacedName) bool  { return s.admits }
func (s fixedScope) Paused(string) (bool, string) {
	return s.paused, "another peer has a higher priority"
}

// All readers of holds say the same about an object: Holds, Explain with the states of the handlers, the status page, and the reconcile itself.
func TestHolds_ReadersAgree(t *testing.T) {
	const evening = "updates wait until the evening"
	tonight := time.Now().Add(time.Hour)
	inScope := func(s fixedScope) func(*Settings) { return func(settings *Settings) { settings.Scope = s } }
	sharded := func(settings *Settings) { settings.Shard = &shards.Shard{Label: "shard", Name: "a", Drain: "drain"} }
	for _, test := range []struct {
		reason    HoldReason
		configure func(*Settings)
		prepare   func(*Engine, *corev1.ConfigMap) // nil if the hold does not depend on what the process knows of the object
		edit      func(*corev1.ConfigMap)
		isAlone   bool // the reconcile needs more than this test provides
	}{
		{reason: HeldByScope, configure: inScope(fixedScope{})},
		{reason: HeldByWarmup, configure: inScope(fixedScope{in: true})},
		{reason: HeldByPause, configure: func(settings *Settings) { settings.Pause = fixedScope{paused: true} }},
		{reason: HeldByShard, configure: sharded, edit: func(obj *corev1.ConfigMap) { obj.Labels = map[string]string{"shard": "b"} }, isAlone: true},
		{reason: HeldByAnnotation, edit: func(obj *corev1.ConfigMap) { obj.Annotations = map[string]string{PausedAnnotation: "true"} }},
		{reason: "Evening", configure: func(settings *Settings) {
			settings.CauseHolds = []CauseHold{{"Evening", func(_ client.Object, reason cause.Reason) Hold {
				if reason != cause.Create {
					return Hold{}
				}
				return Hold{Message: evening, Until: tonight}
			}}}
		}},
		{reason: HeldByWrite, isAlone: true, prepare: func(e *Engine, obj *corev1.ConfigMap) {
			e.states.Get(obj.UID).Worker.Details = &objectDetails{Pending: &reconciliation{}}
		}},
		{reason: HeldByCache, prepare: func(e *Engine, obj *corev1.ConfigMap) { e.states.Get(obj.UID).SetAwaitedVersion("8", time.Minute) }},
		{reason: HeldByCache, prepare: func(e *Engine, obj *corev1.ConfigMap) {
			details := &objectDetails{}
			details.Memory.FoundDeleted = true
			e.states.Get(obj.UID).Worker.Details = details
		}},
		{reason: HeldByLoop, isAlone: true, prepare: func(e *Engine, obj *corev1.ConfigMap) {
			loops := (*loopguard.Loops)(nil).Add(loopguard.Write{Handler: "h0", Versions: []string{"6", "7"}, Fields: patch.MergePatch{"data": map[string]any{"color": "red"}}})
			for range 3 {
				loops.StartUpdate(time.Now(), diff.Diff{{Op: diff.Change, Path: []string{"data", "color"}, Old: "blue", New: "red"}}, 1)
			}
			e.states.Get(obj.UID).Worker.Details = &objectDetails{Loops: loops}
			e.noteLoop(client.ObjectKeyFromObject(obj), true)
		}},
	} {
		for _, isKnown := range []bool{true, false} {
			if !isKnown && test.prepare != nil {
				continue
			}
			obj, called := newObject(nil), 0
			if test.edit != nil {
				test.edit(obj)
			}
			if test.configure == nil {
				test.configure = func(*Settings) {}
			}
			h := onReasons(cause.Create)
			h.Do = func(context.Context, *invoke.Request) error { called++; return nil }
			e, _ := explainableWith(t, obj, test.configure, h)
			e.states.Observe(obj, false)
			if isKnown {
				e.states.GetOrCreate(obj.UID)
			}
			if test.prepare != nil {
				test.prepare(e, obj)
			}

			holds := e.Holds(obj)
			if len(holds) != 1 || holds[0].Reason != test.reason || holds[0].Message == "" {
				t.Errorf("%s: the holds are %+v", test.reason, holds)
				continue
			}
			x := explainOne(t, e, obj)
			if !slices.Contains(x.Waits, holds[0].Message) {
				t.Errorf("%s: Explain says %q, want %q", test.reason, x.Waits, holds[0].Message)
			}
			switch test.reason {
			case HeldByScope, HeldByShard: // Explain evaluates no handlers of such an object
			case HeldByLoop: // it keeps back only the calls that handlers have caused
				if h := x.Handlers[0]; h.State != explain.Due {
					t.Errorf("a loop keeps back the creation: %+v", h)
				}
			default:
				if h := x.Handlers[0]; h.State != explain.Waiting || h.Why != holds[0].Message {
					t.Errorf("%s: the handler is %s, because %q; want it to wait for the hold", test.reason, h.State, h.Why)
				}
			}
			if objects := e.Status().Objects; !slices.ContainsFunc(objects, func(one statuspage.Object) bool { return slices.Equal(one.Waits, []string{holds[0].Message}) }) {
				t.Errorf("%s: the status page says %+v", test.reason, objects)
			}
			if test.isAlone {
				continue
			}
			result, err := e.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			if err != nil || called > 0 {
				t.Errorf("%s: the reconcile has called the handler %d times: %v", test.reason, called, err)
			}
			if until := holds[0].Until; !until.IsZero() && (result.RequeueAfter <= 0 || result.RequeueAfter > time.Until(until)+time.Second) {
				t.Errorf("%s: the next reconcile is in %s, want it at %s", test.reason, result.RequeueAfter, until)
			}
			for _, held := range e.held.bySteps {
				if isHeld := !held.objects.Since(client.ObjectKeyFromObject(obj)).IsZero(); isHeld != (held.reason == test.reason) {
					t.Errorf("%s: the metric of %s counts the object: %t", test.reason, held.reason, isHeld)
				}
			}
		}
	}
}

// A daemon that has not returned keeps back the removal of the finalizer, but no handler.
func TestHolds_OfADeletedObjectWithADaemon(t *testing.T) {
	obj := newObject(nil)
	e, _ := explainable(t, obj, onReasons(cause.Delete))
	started := make(chan struct{})
	daemon := &invoke.BackgroundHandler{Handler: invoke.Handler{Do: func(ctx context.Context, _ *invoke.Request) error {
		close(started)
		<-ctx.Done()
		return nil
	}}}
	if err := e.BackgroundHandlers.Add("watch", "watch", daemon); err != nil {
		t.Fatal(err)
	}
	e.states.Observe(obj, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Background(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	e.background.runner.Start(ctx, obj, []string{"watch"}, &background.State{}, true)
	<-started
	deleted := obj.DeepCopy()
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Now()}, []string{e.Finalizer}
	for _, test := range []struct {
		obj  *corev1.ConfigMap
		want []HoldReason
	}{{obj, nil}, {deleted, []HoldReason{HeldByDaemons}}} {
		var got []HoldReason
		for _, hold := range e.Holds(test.obj) {
			got = append(got, hold.Reason)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("the holds are %q, want %q", got, test.want)
		}
	}
	e.states.Observe(deleted, false)
	if x := explainOne(t, e, deleted); !slices.Contains(x.Waits, "daemons or timers have not stopped: watch") || x.Handlers[0].State != explain.Due {
		t.Errorf("Explain says %q, and the delete handler is %s", x.Waits, x.Handlers[0].State)
	}
}

// holdsInOrder are holds that can be active at the same time, in the order in which an object meets them.
var holdsInOrder = []struct {
	reason    HoldReason
	configure func(*Settings)
	edit      func(*corev1.ConfigMap)
	prepare   func(*Engine, *corev1.ConfigMap)
}{
	{reason: HeldByShard, configure: func(s *Settings) { s.Shard = &shards.Shard{Label: "shard", Name: "a", Drain: "drain"} }},
	{reason: HeldByScope, configure: func(s *Settings) { s.Scope = fixedScope{} }},
	{reason: HeldByWarmup, configure: func(s *Settings) {
		if s.Scope == nil {
			s.Scope = fixedScope{in: true}
		}
	}},
	{reason: HeldByPause, configure: func(s *Settings) { s.Pause = fixedScope{paused: true} }},
	{reason: HeldByCache, prepare: func(e *Engine, obj *corev1.ConfigMap) {
		e.states.GetOrCreate(obj.UID).SetAwaitedVersion("8", time.Minute)
	}},
	{reason: HeldByAnnotation, edit: func(obj *corev1.ConfigMap) { obj.Annotations = map[string]string{PausedAnnotation: "true"} }},
	{reason: "Evening", configure: func(s *Settings) {
		s.CauseHolds = []CauseHold{{"Evening", func(client.Object, cause.Reason) Hold { return Hold{Message: "handlers wait until the evening"} }}}
	}},
	{reason: HeldByLoop, prepare: func(e *Engine, obj *corev1.ConfigMap) { e.noteLoop(client.ObjectKeyFromObject(obj), true) }},
}

// Pairs and triples of holds: all are named in their order, and whatever their number, no handler is called. The layer of the scope names only the first of its reasons.
func TestHolds_Together(t *testing.T) {
	for set := range 1 << len(holdsInOrder) {
		if n := bits.OnesCount(uint(set)); n == 0 || n > 3 {
			continue
		}
		for _, deleting := range []bool{false, true} {
			obj, called := newObject(nil), 0
			if deleting {
				obj.DeletionTimestamp, obj.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/finalizer"}
			}
			h := onReasons(cause.Create, cause.Delete)
			h.Do = func(context.Context, *invoke.Request) error { called++; return nil }
			configure := func(*Settings) {}
			var want []HoldReason
			for i, one := range holdsInOrder {
				if set>>i&1 == 0 {
					continue
				}
				if inner := configure; one.configure != nil {
					configure = func(s *Settings) { inner(s); one.configure(s) }
				}
				if one.edit != nil {
					one.edit(obj)
				}
				if isOfScope := i < 3; !isOfScope || len(want) == 0 {
					want = append(want, one.reason)
				}
			}
			e, _ := explainableWith(t, obj, configure, h)
			e.states.Observe(obj, false)
			for i, one := range holdsInOrder {
				if set>>i&1 == 1 && one.prepare != nil {
					one.prepare(e, obj)
				}
			}
			var got []HoldReason
			for _, hold := range e.Holds(obj) {
				got = append(got, hold.Reason)
			}
			if !slices.Equal(got, want) {
				t.Errorf("the holds are %q, want %q (deleting: %t)", got, want, deleting)
			}
			if slices.Equal(want, []HoldReason{HeldByLoop}) || want[0] == HeldByShard { // a loop holds only the calls that handlers cause, and the release of a shard needs an API server
				continue
			}
			// A reconcile that adds the finalizer returns an error, because the API server of the test rejects writes.
			if _, _ = e.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)}); called > 0 {
				t.Errorf("with the holds %q, the handler was called %d times (deleting: %t)", want, called, deleting)
			}
		}
	}
}
