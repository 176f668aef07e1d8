package kopftest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Call is one call of a handler in an operator.
type Call struct {
	Handler string
	Reason  kopf.Reason
	Kind    string
	Object  types.NamespacedName
	UID     types.UID
	Attempt int
	Began   time.Time
	// Ended is zero while the handler is at work.
	Ended time.Time
	// Err is what the handler has returned; for one that has panicked, it says so.
	Err error

	engine       *engine.Engine // nil: the call was made beside the cycle of its object
	began, ended int64          // versions of the server, if they are known
	changed      string         // what the call is about, in JSON
}

// String is short: "provision (create, attempt 0) of default/orders".
func (c Call) String() string {
	return fmt.Sprintf("%s (%s, attempt %d) of %s", c.Handler, c.Reason, c.Attempt, c.Object)
}

// inBackground tells daemons and timers, which are no work that comes to an end.
func (c Call) inBackground() bool {
	return c.Reason == kopf.ReasonDaemon || c.Reason == kopf.ReasonTimer
}

// A tracker keeps the books of one operator.
type tracker struct {
	onCall    func(Call)   // is told of each call before it is made; nil: nobody is
	version   func() int64 // of the server; nil: it is not known
	onRunaway func()       // is called when objects are looked at again and again; nil: nobody minds

	mu              sync.Mutex
	calls           []Call
	engines         []*engine.Engine
	expectedEngines int       // that there will be engines for
	started         bool      // an operator has told that
	lastActivity    time.Time // when a pass has begun, or somebody began to wait for the last one
	reconciles      int       // that have begun
	running         int
	results         map[objectRef]reconcileResult
	failures        map[failure]error // level-triggered handlers, as of their last calls
	errs            []error
	countedSecond   time.Time         // of the passes that are counted
	countInSecond   map[objectRef]int // that second
	runaway         string            // why the onRunaway was pulled
}

func newTracker() *tracker {
	return &tracker{results: map[objectRef]reconcileResult{}, failures: map[failure]error{}}
}

type objectRef struct {
	engine *engine.Engine
	key    types.NamespacedName
}

// retryableError is an error after which a level-triggered handler is called again because of it: not after its last attempt, even if its
// interval has it begin anew.
func (v objectRef) retryableError(ctx context.Context, call *engine.Call, err error) error {
	handler, _ := v.engine.Levels.Get(call.ID)
	record := progress.Record{Started: call.Attempt.Started, Retries: call.Attempt.Number}
	if handler.Policy.Attempt(ctx, record, time.Now(), func(context.Context) error { return err }).Final {
		return nil
	}
	return err
}

// A failure is that of a handler of an object.
type failure struct {
	objectRef
	handler string
}

type objectRefKey struct{}

// A result is how the last pass of an object has ended.
type reconcileResult struct {
	due   time.Time // when it is to be objectRef again; zero: when something happens
	after time.Duration
	err   error
}

// HandlerCalled takes note of a call.
func (w *tracker) HandlerCalled(ctx context.Context, call *engine.Call) (ended func(error)) {
	c := Call{
		Handler: call.ID, Reason: kopf.Reason(call.Reason), Object: client.ObjectKeyFromObject(call.Object),
		Kind: call.Object.GetObjectKind().GroupVersionKind().Kind, UID: call.Object.GetUID(), Attempt: call.Attempt.Number, Began: time.Now(),
	}
	if v, ok := ctx.Value(objectRefKey{}).(objectRef); ok {
		c.engine = v.engine
	}
	if w.version != nil {
		c.began = w.version()
		if text, err := json.Marshal(call.Diff); err == nil {
			c.changed = string(text)
		}
	}
	w.mu.Lock()
	i := len(w.calls)
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.onCall != nil {
		w.onCall(c)
	}
	return func(err error) {
		ended := int64(0)
		if w.version != nil {
			ended = w.version()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls[i].ended = ended
		w.calls[i].Ended, w.calls[i].Err = time.Now(), err
		if v, ok := ctx.Value(objectRefKey{}).(objectRef); ok && c.Reason == kopf.ReasonReconcile {
			w.failures[failure{v, c.Handler}] = v.retryableError(ctx, call, err)
		}
	}
}

// Around takes note of the passes.
func (w *tracker) WrapReconciler(e *engine.Engine, next reconcile.Reconciler) reconcile.Reconciler {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines = append(w.engines, e)
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
		v := objectRef{e, req.NamespacedName}
		w.reconcileStarted(v)
		err = errReconcilePanicked
		defer func() { w.reconcileEnded(v, result, err) }()
		return next.Reconcile(context.WithValue(ctx, objectRefKey{}, v), req)
	})
}

var errReconcilePanicked = errors.New("a pass has panicked")

// Begins takes note of how many engines there will be.
func (w *tracker) OperatorStarted(kinds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expectedEngines, w.started = w.expectedEngines+kinds, true
}

func (w *tracker) reconcileStarted(v objectRef) {
	w.mu.Lock()
	w.reconciles++
	w.lastActivity = time.Now()
	w.running++
	if now := time.Now().Truncate(time.Second); !now.Equal(w.countedSecond) {
		w.countedSecond, w.countInSecond = now, map[objectRef]int{}
	}
	w.countInSecond[v]++
	pull := w.onRunaway != nil && w.countInSecond[v] > maxReconcilesPerSecond && w.runaway == ""
	if pull {
		w.runaway = fmt.Sprintf("%s %s was looked at again and again, more than %d times in a second%s", v.engine.GVK.Kind, v.key, maxReconcilesPerSecond, w.lastCall())
	}
	w.mu.Unlock()
	if pull {
		w.onRunaway()
	}
}

// maxReconcilesPerSecond passes of one object within a second of virtual time are those of handlers that cause each other, or themselves: without a onRunaway, that
// second would never end.
const maxReconcilesPerSecond = 100

func (w *tracker) runawayReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runaway
}

func (w *tracker) lastCall() string {
	if len(w.calls) == 0 {
		return ""
	}
	return fmt.Sprintf("; the last call was of %s: does it change what calls it?", w.calls[len(w.calls)-1])
}

func (w *tracker) reconcileEnded(v objectRef, result reconcile.Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	out := reconcileResult{err: err}
	if result.RequeueAfter > 0 {
		out.due, out.after = time.Now().Add(result.RequeueAfter), result.RequeueAfter
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
	w.results[v] = out
	if out.due.IsZero() { // whatever has failed will not be called again by itself
		maps.DeleteFunc(w.failures, func(f failure, _ error) bool { return f.objectRef == v })
	}
}

// requeue is the wait of the object that is due first.
func (w *tracker) requeue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first reconcileResult
	for _, v := range w.results {
		if time.Until(v.due) > 0 && (first.due.IsZero() || v.due.Before(first.due)) {
			first = v
		}
	}
	return first.after
}

// turns counts the calls that have begun, and those that have ended.
func (w *tracker) callTransitions() (n int) {
	for _, c := range w.callLog() {
		if n++; !c.Ended.IsZero() {
			n++
		}
	}
	return n
}

func (w *tracker) reconcileErrors() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func (w *tracker) callLog() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// atWork tells who has not ended.
func (w *tracker) runningCalls() (calls []Call) {
	for _, c := range w.callLog() {
		if c.Ended.IsZero() {
			calls = append(calls, c)
		}
	}
	return calls
}

// busy tells who is at work, but for daemons and timers.
func (w *tracker) runningForeground() (calls []Call) {
	for _, c := range w.callLog() {
		if c.Ended.IsZero() && !c.inBackground() {
			calls = append(calls, c)
		}
	}
	return calls
}
