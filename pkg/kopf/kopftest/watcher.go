package kopftest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A Call is one call of a handler in an operator.
type Call struct {
	Handler string
	Reason  kopf.Reason
	Object  types.NamespacedName
	UID     types.UID
	Attempt int
	Began   time.Time
	// Ended is zero while the handler is at work.
	Ended time.Time
	// Err is what the handler has returned; for one that has panicked, it says so.
	Err error
}

// String is short: "provision (create, attempt 0) of default/orders".
func (c Call) String() string {
	return fmt.Sprintf("%s (%s, attempt %d) of %s", c.Handler, c.Reason, c.Attempt, c.Object)
}

// inBackground tells daemons and timers, which are no work that comes to an end.
func (c Call) inBackground() bool {
	return c.Reason == kopf.ReasonDaemon || c.Reason == kopf.ReasonTimer
}

// A watcher keeps the books of one operator.
type watcher struct {
	began func(Call) // is told of each call before it is made; nil: nobody is
	brake func()     // is called when objects are looked at again and again; nil: nobody minds

	mu      sync.Mutex
	calls   []Call
	engines []*engine.Engine
	passes  int // that have begun
	running int
	visits  map[visited]visit
	errs    []error
	second  time.Time       // of the passes that are counted
	within  map[visited]int // that second
	runaway string          // why the brake was pulled
}

type visited struct {
	engine *engine.Engine
	key    types.NamespacedName
}

// A visit is how the last pass of an object has ended.
type visit struct {
	due   time.Time // when it is to be visited again; zero: when something happens
	after time.Duration
	err   error
}

// Called takes note of a call.
func (w *watcher) Called(_ context.Context, call *engine.Call) (ended func(error)) {
	c := Call{
		Handler: call.ID, Reason: kopf.Reason(call.Reason), Object: client.ObjectKeyFromObject(call.Object),
		UID: call.Object.GetUID(), Attempt: call.Attempt.Number, Began: time.Now(),
	}
	w.mu.Lock()
	i := len(w.calls)
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.began != nil {
		w.began(c)
	}
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls[i].Ended, w.calls[i].Err = time.Now(), err
	}
}

// Around takes note of the passes.
func (w *watcher) Around(e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines = append(w.engines, e)
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		w.enters(visited{e, req.NamespacedName})
		result, err := next.Reconcile(ctx, req)
		w.leaves(visited{e, req.NamespacedName}, result, err)
		return result, err
	})
}

func (w *watcher) enters(v visited) {
	w.mu.Lock()
	w.passes++
	w.running++
	if now := time.Now().Truncate(time.Second); !now.Equal(w.second) {
		w.second, w.within = now, map[visited]int{}
	}
	w.within[v]++
	pull := w.brake != nil && w.within[v] > tooMany && w.runaway == ""
	if pull {
		w.runaway = fmt.Sprintf("%s %s was looked at again and again, more than %d times in a second%s", v.engine.GVK.Kind, v.key, tooMany, w.lastCall())
	}
	w.mu.Unlock()
	if pull {
		w.brake()
	}
}

// tooMany passes of one object within a second of virtual time are those of handlers that cause each other, or themselves: without a brake, that
// second would never end.
const tooMany = 100

func (w *watcher) ranAway() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runaway
}

func (w *watcher) lastCall() string {
	if len(w.calls) == 0 {
		return ""
	}
	return fmt.Sprintf("; the last call was of %s: does it change what calls it?", w.calls[len(w.calls)-1])
}

func (w *watcher) leaves(v visited, result reconcile.Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	if w.visits == nil {
		w.visits = map[visited]visit{}
	}
	out := visit{err: err}
	if result.RequeueAfter > 0 {
		out.due, out.after = time.Now().Add(result.RequeueAfter), result.RequeueAfter
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
	w.visits[v] = out
}

// requeue is the shortest wait that is left.
func (w *watcher) requeue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var shortest time.Duration
	for _, v := range w.visits {
		if time.Until(v.due) > 0 && (shortest == 0 || v.after < shortest) {
			shortest = v.after
		}
	}
	return shortest
}

func (w *watcher) faults() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func (w *watcher) log() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// atWork tells who has not ended.
func (w *watcher) atWork() (calls []Call) {
	for _, c := range w.log() {
		if c.Ended.IsZero() {
			calls = append(calls, c)
		}
	}
	return calls
}

// busy tells who is at work, but for daemons and timers.
func (w *watcher) busy() (calls []Call) {
	for _, c := range w.log() {
		if c.Ended.IsZero() && !c.inBackground() {
			calls = append(calls, c)
		}
	}
	return calls
}
