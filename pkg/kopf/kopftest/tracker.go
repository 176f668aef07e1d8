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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A Call is a handler's attempt in an operator.
type Call struct {
	Handler string
	Reason  kopf.Reason
	Kind    string
	Object  types.NamespacedName
	UID     types.UID
	// Attempt is the number of the attempt, starting at 0.
	Attempt int
	Began   time.Time
	// Ended is zero while the handler is running.
	Ended time.Time
	// Err is the error that the handler has returned, or its panic.
	Err error

	engine       *engine.Engine // the reconcile's engine; nil for other calls, such as daemons
	began, ended int64          // the in-memory server's versions at the start and at the end; zero if unknown
	changed      string         // the handler's diff as JSON
}

// String returns a short form: "provision (create, attempt 0) of default/orders".
func (c Call) String() string {
	return fmt.Sprintf("%s (%s, attempt %d) of %s", c.Handler, c.Reason, c.Attempt, c.Object)
}

// inBackground reports whether the handler is a daemon or a timer. These don't count as pending work, because they may run forever.
func (c Call) inBackground() bool {
	return c.Reason == kopf.ReasonDaemon || c.Reason == kopf.ReasonTimer
}

// A tracker records the handler calls and the reconciles of one operator. It is safe for concurrent use.
type tracker struct {
	onCall       func(Call)     // called before each handler call; may be nil
	version      func() int64   // returns the in-memory server's version; may be nil
	cacheOptions *cache.Options // the manager's cache options
	inMemory     bool           // whether the server is in memory
	onRunaway    func()         // called when an object exceeds maxReconcilesPerSecond; may be nil

	mu              sync.Mutex
	calls           []Call
	running         map[int]bool      // indexes of the calls that haven't finished
	transitions     int               // number of started plus finished calls
	lastFailed      map[types.UID]int // index of the last failed call of each object
	engines         []*engine.Engine
	expectedEngines int       // number of engines that operators have announced
	started         bool      // OperatorStarting was called
	lastActivity    time.Time // start of the last reconcile or of the last RunUntilQuiet
	reconciles      int       // number of reconciles that have started
	reconciling     int       // number of running reconciles
	results         map[objectRef]reconcileResult
	failures        map[failure]error // last error of each reconcile handler; nil if it succeeded
	errs            []error
	countedSecond   time.Time         // second to which countInSecond belongs
	countInSecond   map[objectRef]int // reconciles started in countedSecond
	runaway         string            // message about the object that is reconciled too often
}

func newTracker() *tracker {
	return &tracker{running: map[int]bool{}, lastFailed: map[types.UID]int{}, results: map[objectRef]reconcileResult{}, failures: map[failure]error{}}
}

type objectRef struct {
	engine *engine.Engine
	key    types.NamespacedName
}

// retryableError returns a reconcile handler's error if the handler will be retried. After the last attempt, it returns nil, even if the
// handler's interval leads to a later call.
func (v objectRef) retryableError(ctx context.Context, call *invoke.Request, err error) error {
	handler, _ := v.engine.ReconcileHandlers.Get(call.ID)
	record := progress.Record{Started: call.Attempt.Started, Retries: call.Attempt.Number}
	if handler.Policy.Attempt(ctx, record, time.Now(), func(context.Context) error { return err }).Final {
		return nil
	}
	return err
}

// A failure identifies an object's reconcile handler.
type failure struct {
	objectRef
	handler string
}

type objectRefKey struct{}

// A reconcileResult records the outcome of an object's last reconcile.
type reconcileResult struct {
	due   time.Time // time of the requeue; zero if none is scheduled
	after time.Duration
	err   error
}

// HandlerStarting records a handler call.
func (w *tracker) HandlerStarting(ctx context.Context, call *invoke.Request) (ended func(error)) {
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
	w.running[i] = true
	w.transitions++
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
		delete(w.running, i)
		w.transitions++
		if err != nil {
			w.lastFailed[c.UID] = i
		}
		if v, ok := ctx.Value(objectRefKey{}).(objectRef); ok && c.Reason == kopf.ReasonReconcile {
			w.failures[failure{v, c.Handler}] = v.retryableError(ctx, call, err)
		}
	}
}

// WrapReconciler records the reconciles of an engine.
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

var errReconcilePanicked = errors.New("a reconcile panicked")

// OperatorStarting records how many engines an operator starts.
func (w *tracker) OperatorStarting(kinds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expectedEngines, w.started = w.expectedEngines+kinds, true
}

// KindsChanged changes the number of engines that operators have announced.
func (w *tracker) KindsChanged(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.expectedEngines += change
}

// EngineEnded removes an engine that has stopped before the operator.
func (w *tracker) EngineEnded(e *engine.Engine) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engines = slices.DeleteFunc(w.engines, func(other *engine.Engine) bool { return other == e })
	maps.DeleteFunc(w.results, func(v objectRef, _ reconcileResult) bool { return v.engine == e })
	maps.DeleteFunc(w.failures, func(f failure, _ error) bool { return f.engine == e })
}

// ChecksRights returns false for a server in memory, because it has no access control.
func (w *tracker) ChecksRights() bool { return !w.inMemory }

// ChangeCacheOptions fills in missing options of an operator's cache from the manager's cache.
func (w *tracker) ChangeCacheOptions(options *cache.Options) {
	manager := w.cacheOptions
	if manager == nil {
		return
	}
	if options.HTTPClient == nil {
		options.HTTPClient = manager.HTTPClient
	}
	if options.Mapper == nil {
		options.Mapper = manager.Mapper
	}
	if options.NewInformer == nil {
		options.NewInformer = manager.NewInformer
	}
	if options.SyncPeriod == nil {
		options.SyncPeriod = manager.SyncPeriod
	}
}

func (w *tracker) reconcileStarted(v objectRef) {
	w.mu.Lock()
	w.reconciles++
	w.lastActivity = time.Now()
	w.reconciling++
	if now := time.Now().Truncate(time.Second); !now.Equal(w.countedSecond) {
		w.countedSecond, w.countInSecond = now, map[objectRef]int{}
	}
	w.countInSecond[v]++
	isRunaway := w.onRunaway != nil && w.countInSecond[v] > maxReconcilesPerSecond && w.runaway == ""
	if isRunaway {
		w.runaway = fmt.Sprintf("%s %s was reconciled more than %d times in one second%s", v.engine.GVK.Kind, v.key, maxReconcilesPerSecond, w.lastCall())
	}
	w.mu.Unlock()
	if isRunaway {
		w.onRunaway()
	}
}

// maxReconcilesPerSecond limits an object's reconciles within a second of virtual time. Handlers that trigger themselves or each other
// exceed it, and without a limit, virtual time would never advance.
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
	return fmt.Sprintf("; the last handler call was %s: check whether its changes trigger it again", w.calls[len(w.calls)-1])
}

func (w *tracker) reconcileEnded(v objectRef, result reconcile.Result, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reconciling--
	out := reconcileResult{err: err}
	if result.RequeueAfter > 0 {
		out.due, out.after = time.Now().Add(result.RequeueAfter), result.RequeueAfter
	}
	if err != nil {
		w.errs = append(w.errs, err)
	}
	w.results[v] = out
	if out.due.IsZero() { // without a requeue, failed handlers aren't retried
		maps.DeleteFunc(w.failures, func(f failure, _ error) bool { return f.objectRef == v })
	}
}

// requeue returns the delay of the next requeue, or 0.
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

// callTransitions returns the number of started plus finished calls.
func (w *tracker) callTransitions() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.transitions
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

// runningCalls returns the running calls in the order in which they started. It doesn't copy the others, because there may be many, and
// RunUntilQuiet calls it often.
func (w *tracker) runningCalls() (calls []Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.running) == 0 {
		return nil
	}
	for _, i := range slices.Sorted(maps.Keys(w.running)) {
		calls = append(calls, w.calls[i])
	}
	return calls
}

// runningForeground returns the running calls except for daemons and timers.
func (w *tracker) runningForeground() []Call {
	return slices.DeleteFunc(w.runningCalls(), Call.inBackground)
}

// lastError describes an object's last failed handler call.
func (w *tracker) lastError(uid types.UID) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.lastFailed[uid]
	if !ok {
		return ""
	}
	return fmt.Sprintf("; %s failed: %v", w.calls[i], w.calls[i].Err)
}
