package scenario

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// Environment is the API server and namespace of a scenario.
type Environment struct {
	// Config connects to the API server. Only the operator's requests have faults.
	Config *rest.Config
	// Namespace must exist and be empty.
	Namespace string
	// Tick is the unit of time of the plans.
	Tick time.Duration
}

// world is one run of a plan.
type world struct {
	Environment
	journal
	plan        Plan
	scheme      *runtime.Scheme
	users       client.Client // client of the users, without faults
	faultsEnded atomic.Bool   // whether faults have ended

	process int // number of the operator process, from 1
	current *operator
	former  []*operator // crashed operators, whose goroutines may still run

	edits    int            // number of edits by users
	failed   map[string]int // failed attempts by handler and object
	rand     *rand.Rand     // random source of the handlers
	views    map[types.UID]view
	removed  map[types.UID]bool // objects that were deleted without a finalizer
	writes   int
	listed   map[resumption]bool                      // objects to resume
	answered map[ask]bool                             // requests of users
	alive    map[types.UID]*unstructured.Unstructured // objects that exist at the end
}

// Run runs a plan and checks the properties.
func Run(ctx context.Context, env Environment, plan Plan) Report {
	w := &world{
		Environment: env, plan: plan, scheme: runtime.NewScheme(),
		failed: map[string]int{}, rand: rand.New(rand.NewPCG(plan.Seed, 1)),
		views: map[types.UID]view{}, removed: map[types.UID]bool{}, listed: map[resumption]bool{}, answered: map[ask]bool{},
	}
	w.began, w.histories = time.Now(), map[types.UID]*history{}
	w.lastRecorded = map[resumption]int{}
	if err := w.run(ctx); err != nil {
		w.violatef(Runs, "%v", err)
	}
	w.checkEnd()
	return Report{Plan: plan, Violations: w.violations, Log: w.text(), Calls: len(w.calls), Writes: w.writes}
}

func (w *world) run(ctx context.Context) (err error) {
	if err := v1.AddToScheme(w.scheme); err != nil {
		return err
	}
	if w.users, err = client.New(w.Config, client.Options{Scheme: w.scheme}); err != nil {
		return err
	}
	defer w.end()
	if err := w.launch(ctx); err != nil {
		return err
	}
	for _, step := range w.plan.Steps {
		pause(ctx, step.After)
		if w.plan.Patient && !step.Action.concernsOperator() {
			if err := w.settle(ctx, 5*w.Tick); err != nil {
				return err
			}
		}
		if err := w.take(ctx, step); err != nil {
			return err
		}
	}
	w.faultsEnded.Store(true)
	w.logf("the last step is done; only delays continue")
	return w.settle(ctx, restFor*w.Tick)
}

// pause waits. It returns false if the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
