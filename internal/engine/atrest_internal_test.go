package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// TestEngine_AtRest reconciles random objects of random kinds. For those that the engine takes to be at rest, this must have no effect.
func TestEngine_AtRest(t *testing.T) {
	const seeds = 4000
	atRest := 0
	for seed := range uint64(seeds) {
		w := newRestWorld(t, rand.New(rand.NewPCG(seed, 1)))
		if !w.engine.isAtRest(w.cached) {
			continue
		}
		atRest++
		w.engine.ConfirmAtRest()
		remembered := w.engine.states.Get(w.cached.UID).Worker
		w.engine.states.Get(w.cached.UID).Worker = objectMemory{} // as if the engine had not looked at the object
		result, err := w.engine.Reconcile(log.IntoContext(t.Context(), logr.Discard()), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(w.cached)})
		recorded := w.engine.states.Get(w.cached.UID).Worker
		recorded.Handled = true // only resume handlers depend on it, and the kind has none
		if diff := cmp.Diff(recorded, remembered); diff != "" {
			t.Errorf("seed %d: what the engine remembers differs from what a reconcile records (-reconcile +at rest):\n%s", seed, diff)
		}
		if err != nil || result != (reconcile.Result{}) || len(w.effects) > 0 {
			t.Errorf("seed %d: the reconcile of an object at rest: %v, %v, %q, want nothing\n%s\n%+v", seed, result, err, w.effects, w.declared, w.cached)
		}
	}
	if atRest < seeds/50 || atRest > seeds/2 {
		t.Errorf("%d of %d objects are at rest, which tests too few cases", atRest, seeds)
	}
}

// restWorld is a random object, as a lean cache has it, with an engine of a random kind.
type restWorld struct {
	engine   *Engine
	cached   *appsv1.Deployment
	declared string
	effects  []string
}

func newRestWorld(t *testing.T, random *rand.Rand) *restWorld {
	t.Helper()
	chance := func(p float64) bool { return random.Float64() < p }
	w := &restWorld{}
	kind := Kind{Name: "deployments", GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), New: func() client.Object { return &appsv1.Deployment{} }}
	for i := range 1 + random.IntN(3) {
		h := &invoke.Handler{Do: func(context.Context, *invoke.Request) error {
			w.effects = append(w.effects, fmt.Sprintf("handler %d", i))
			return nil
		}}
		for _, reason := range []string{"create", "update", "delete"} {
			if chance(0.5) {
				h.Reasons = append(h.Reasons, reason)
			}
		}
		if chance(0.1) {
			h.Reasons = append(h.Reasons, "resume")
		}
		h.AnyReason, h.Optional = chance(0.05), chance(0.3)
		if chance(0.1) {
			h.When = []func(*invoke.Request) bool{func(*invoke.Request) bool { return false }}
		}
		if chance(0.2) {
			h.Labels = []match.KeyFilter{{Name: "tier"}}
		}
		if chance(0.05) {
			h.ConditionType = "Ready"
		}
		w.declared += fmt.Sprintf("%+v\n", h.Criteria)
		if err := kind.Handlers.Add(fmt.Sprint("h", i), fmt.Sprint("h", i), h); err != nil {
			t.Fatal(err)
		}
	}
	if chance(0.05) {
		kind.DeclaredConditions = []string{"Ready"}
	}
	obj := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one", UID: "1", Annotations: map[string]string{"note": "user's"}},
	}
	settings := Settings{
		Store: progress.Smart(), Baseline: progress.AnnotationBaseline(""), Finalizer: "example.com/finalizer", Lifecycle: progress.AllAtOnce,
		Checkpoint: time.Minute, ConsistencyTimeout: time.Minute, LeanCaches: true,
	}
	if chance(0.2) {
		settings.Store, settings.Baseline = progress.Annotations("ops.example.com"), progress.AnnotationBaseline("ops.example.com")
	}
	if chance(0.3) {
		obj.Labels = map[string]string{"tier": "gold"}
	}
	if chance(0.5) {
		obj.Finalizers = []string{settings.Finalizer}
	}
	if form := LeanForm(settings, kind); form != nil && chance(0.95) {
		content, err := patch.Content(obj)
		if err != nil {
			t.Fatal(err)
		}
		text, err := essence.Encode(form.Essence.Build(content))
		if err != nil {
			t.Fatal(err)
		}
		form.Baseline.Store(obj, text)
		if stamps := progress.StampsOf(settings.Baseline, settings.Store); chance(0.8) {
			obj.Annotations[stamps.Key("1")] = essence.Digest(text)
		} else if chance(0.5) {
			obj.Annotations[stamps.Key("2")] = essence.Digest(text) // a copy of another object
		}
	}
	if chance(0.05) {
		obj.Spec.Paused = true
	}
	if chance(0.1) {
		if err := settings.Store.Store(obj, fmt.Sprint("h", random.IntN(5)), progress.Record{Purpose: "update", Started: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if chance(0.05) {
		obj.Annotations[PausedAnnotation] = "true"
	}
	if chance(0.05) {
		obj.Annotations["kopf.zalando.org/retry.h0"] = "now"
	}
	if chance(0.05) {
		progress.Pin(settings.Baseline, settings.Store).Store(obj, []byte(`{"digest":"abc"}`))
	}
	if chance(0.05) && len(obj.Finalizers) > 0 {
		obj.DeletionTimestamp = new(metav1.Now())
	}
	fakeClient := fake.NewClientBuilder().WithObjects(obj).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.effects = append(w.effects, "patch")
			return c.Patch(ctx, obj, p, opts...)
		},
	}).Build()
	settings.Client, settings.Cache, settings.APIReader = fakeClient, fakeClient, fakeClient
	w.engine = New(settings, kind)
	w.cached = &appsv1.Deployment{}
	if err := fakeClient.Get(t.Context(), client.ObjectKeyFromObject(obj), w.cached); err != nil {
		t.Fatal(err)
	}
	w.engine.lean.Shrink(w.cached)
	w.engine.states.Observe(w.cached, true)
	return w
}

type pausedEverywhere struct{}

func (pausedEverywhere) Paused(string) (bool, string) { return true, "a peer is active" }

// TestEngine_ConfirmAtRest_Paused: during a pause, a peer may handle the deletion of an object at rest, so its delete handlers must not be
// called when it has vanished.
func TestEngine_ConfirmAtRest_Paused(t *testing.T) {
	for seed := range uint64(1000) {
		w := newRestWorld(t, rand.New(rand.NewPCG(seed, 1)))
		if !w.engine.isAtRest(w.cached) {
			continue
		}
		w.engine.Pause = pausedEverywhere{}
		if w.engine.ConfirmAtRest(); w.engine.states.Get(w.cached.UID).Worker.SeenSinceStart {
			t.Error("SeenSinceStart = true, want false until a worker reconciles the object after the pause")
		}
		return
	}
	t.Fatal("no random object is at rest")
}
