package kopftest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Invocation is the result of one handler call.
type Invocation[T client.Object] struct {
	// Outcome contains the error and, if the handler would be called again, the delay. A panic becomes an error, as in an operator.
	Outcome progress.Outcome
	// RequeueAfter is the delay that a reconcile handler has requested before its next call, or 0.
	RequeueAfter time.Duration
	// Object is the object after the call. If the handler has replaced the request's object with a different copy of it, this is that copy.
	// A replacement with a different name or uid is ignored here, but an operator would reject it.
	Object T
	// Changes are the differences between the given object and Object.
	Changes diff.Diff
	// Result is the value passed to SetResult in its JSON form.
	Result any
	// Events are the Events that the handler has posted.
	Events []Event
	// Flushed contains a copy of the object from each call of Flush.
	Flushed []T
	// Writes are the writes that the handler has made with the request's client.
	Writes []Write
	// SubHandlers are the ids of the declared sub-handlers, without the id of the handler. [Invocation.InvokeSubHandler] calls them.
	SubHandlers []string

	subs []invoke.SubHandler
	call call
}

// An Event is a Kubernetes Event. An [Invocation] only contains the handler's Events. An [Operator] and a [Report] include the operator's
// own Events, such as HandlerFailed.
type Event struct{ Type, Reason, Action, Note string }

// String returns a short form: "Warning Busy: the cloud is busy".
func (e Event) String() string { return fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note) }

// An InvokeOption configures [Invoke].
type InvokeOption func(*call)

// A call holds the options of Invoke.
type call struct {
	reason     kopf.Reason
	old        client.Object
	path       []string
	changes    bool // whether the handler receives the changes
	event      watch.EventType
	attempt    progress.Attempt
	policy     progress.Policy
	id         string
	ctx        context.Context
	cluster    *Cluster
	made       bool        // whether the cluster was created for this call
	connection *connection // connection of the request's client
	client     client.Client
	scheme     *runtime.Scheme
	others     []client.Object
	finished   []string // the full ids of the finished sub-handlers
}

// WithReason sets the reason of the request. Default: [kopf.ReasonUpdate] with [WithOldObject], otherwise [kopf.ReasonCreate].
func WithReason(reason kopf.Reason) InvokeOption { return func(c *call) { c.reason = reason } }

// WithOldObject sets the object's last-handled state, from which the request's Old and Diff are computed. It makes the call an update by
// default.
func WithOldObject(old client.Object) InvokeOption { return func(c *call) { c.old = old } }

// WithField makes Invoke call the handler as a field handler. The path is dotted, with "\." for a dot in a key. Diff then only contains
// changes at or below the field, and Field() returns its old and new value. See [kopf.Field].
func WithField(path string) InvokeOption {
	return func(c *call) { c.path, c.changes = explore.SplitFieldPath(path), true }
}

// WithEventType makes Invoke call the handler as an event handler, with the type of the watch event. See [kopf.Resource.OnEvent].
func WithEventType(event watch.EventType) InvokeOption {
	return func(c *call) { c.reason, c.event = kopf.ReasonEvent, event }
}

// WithAttempt sets the attempt of the request. Default: the first attempt, started now.
func WithAttempt(attempt progress.Attempt) InvokeOption { return func(c *call) { c.attempt = attempt } }

// WithPolicy sets the error policy that determines the outcome. Default: the policy of a handler without options.
func WithPolicy(policy progress.Policy) InvokeOption { return func(c *call) { c.policy = policy } }

// WithFinishedSubHandlers sets which sub-handlers have finished before the call. [kopf.Request.AwaitSubs] returns true if they include all
// declared sub-handlers. The ids are those of [Invocation.SubHandlers], or "parent/child" for the sub-handlers of a sub-handler that
// [Invocation.InvokeSubHandler] calls. Default: none.
func WithFinishedSubHandlers(ids ...string) InvokeOption {
	return func(c *call) {
		for _, id := range ids {
			c.finished = append(c.finished, c.id+"/"+id)
		}
	}
}

// WithContext sets the context of the call, for deadlines, cancellation and memos (see [Context]). Default: the context of the test.
func WithContext(ctx context.Context) InvokeOption { return func(c *call) { c.ctx = ctx } }

// WithCluster sets the cluster of the request's client. Default: a cluster in memory with the object and the objects of [WithObjects].
func WithCluster(cluster *Cluster) InvokeOption { return func(c *call) { c.cluster = cluster } }

// WithObjects adds objects to the default cluster of the request's client. It has no effect with [WithCluster].
func WithObjects(objs ...client.Object) InvokeOption {
	return func(c *call) { c.others = append(c.others, objs...) }
}

// WithScheme sets the scheme of the default cluster of the request's client. Default: the scheme of client-go, which contains the built-in
// kinds. With [WithCluster], it has no effect.
func WithScheme(scheme *runtime.Scheme) InvokeOption { return func(c *call) { c.scheme = scheme } }

// Context returns a context with empty memos, as handlers receive it. A test can store memos before a call and load them after it:
//
//	ctx := kopftest.Context(t)
//	connections.Store(ctx, fake)
//	kopftest.Invoke(t, provision, db, kopftest.WithContext(ctx))
func Context(t testing.TB) context.Context {
	return objectstate.ContextWithMemos(t.Context(), &objectstate.Memos{})
}

// Invoke calls a handler once for an object, without an operator, and returns the result. The handler receives a copy of the object.
// Without [WithCluster], a missing uid, resourceVersion, generation or creationTimestamp of the copy is taken from the default cluster.
//
//	got := kopftest.Invoke(t, provision, db, kopftest.WithOldObject(before))
//	if got.Outcome.Delay != 10*time.Second { ... }
//
// Filters and handler options such as Retries belong to a declaration, so they don't apply here. To test them, use [Cycle].
func Invoke[T client.Object](t testing.TB, fn kopf.Handler[T], obj T, opts ...InvokeOption) *Invocation[T] {
	t.Helper()
	return runAttempt(t, newCall(t, obj, opts), obj, func(ctx context.Context, req *kopf.Request[T], engineCall *invoke.Request) error {
		testhook.BindCall(req, engineCall)
		return testhook.FinishCall(req, fn(ctx, req))
	})
}

// InvokeSubHandler calls a declared sub-handler with a copy of Object. It fails the test if the handler hasn't declared the id.
func (inv *Invocation[T]) InvokeSubHandler(t testing.TB, id string) *Invocation[T] {
	t.Helper()
	for _, sub := range inv.subs {
		if sub.ID != inv.call.id+"/"+id {
			continue
		}
		c := inv.call
		parent := &invoke.Handler{Criteria: match.Criteria{AnyReason: c.changes}}
		if len(c.path) > 0 {
			parent.Field = &match.FieldFilter{Path: c.path}
		}
		sub.Inherit(c.id, parent)
		c.id, c.policy, c.attempt = sub.ID, sub.Policy, progress.Record{Started: time.Now()}.Attempt()
		if sub.Field != nil {
			c.path = sub.Field.Path
		}
		return runAttempt(t, c, inv.Object, func(ctx context.Context, _ *kopf.Request[T], engineCall *invoke.Request) error {
			return sub.Do(ctx, engineCall)
		})
	}
	t.Fatalf("kopftest: the handler has no sub-handler %q, only %q", id, inv.SubHandlers)
	return nil
}

func newCall(t testing.TB, obj client.Object, opts []InvokeOption) call {
	t.Helper()
	c := call{id: "handler", ctx: t.Context()}
	for _, opt := range opts {
		opt(&c)
	}
	if c.reason == "" {
		c.reason = kopf.ReasonCreate
		if c.old != nil {
			c.reason = kopf.ReasonUpdate
		}
	}
	c.changes = c.changes || c.reason == kopf.ReasonUpdate
	if c.attempt.Started.IsZero() {
		c.attempt.Started = progress.Record{Started: time.Now()}.Attempt().Started // with the precision of a stored time
	}
	if objectstate.MemosFromContext(c.ctx) == nil {
		c.ctx = objectstate.ContextWithMemos(c.ctx, &objectstate.Memos{})
	}
	if c.cluster == nil {
		c.cluster, c.made = newInvocationCluster(t, c.scheme, obj, c.others), true
	}
	c.connection, c.client = c.cluster.connect(t)
	return c
}

func runAttempt[T client.Object](
	t testing.TB, c call, obj T, do func(ctx context.Context, req *kopf.Request[T], engineCall *invoke.Request) error,
) *Invocation[T] {
	t.Helper()
	obj = obj.DeepCopyObject().(T)
	c.cluster.setDefaultNamespace(obj)
	if c.made {
		c.cluster.copyServerMetadata(t, obj)
	}
	inv := &Invocation[T]{Object: obj.DeepCopyObject().(T), call: c}
	req := &kopf.Request[T]{
		Object: inv.Object, Handler: c.id, Reason: c.reason, Event: c.event, Attempt: c.attempt, Client: c.client,
	}
	engineCall := inv.newEngineCall(t, req)
	record := progress.Record{Started: c.attempt.Started, Retries: c.attempt.Number, Message: c.attempt.Last}
	written := len(c.connection.writes())
	inv.Outcome = c.policy.Attempt(c.ctx, record, time.Now(), func(ctx context.Context) error { return do(ctx, req, engineCall) })
	if fault, ok := errors.AsType[*progress.PanicError](inv.Outcome.Err); ok && fault.Value == any(guard.ErrExited) {
		goruntime.Goexit() // a sub-handler has called FailNow in its own goroutine
	}
	if left, ok := engineCall.Object.(T); ok && isSameObject(left, obj) {
		inv.Object = left
	}
	inv.Writes = c.connection.writes()[written:]
	if isNotRegisteredError(inv.Outcome.Err) {
		t.Logf("kopftest: the scheme of the request's client lacks a Go type that the handler uses: set a scheme with WithScheme")
	}
	inv.Result, inv.RequeueAfter, inv.subs = engineCall.Result, engineCall.Requeue.After, engineCall.SubHandlers
	inv.Changes = diff.Of(toContent(t, obj), toContent(t, inv.Object))
	for _, sub := range engineCall.SubHandlers {
		inv.SubHandlers = append(inv.SubHandlers, strings.TrimPrefix(sub.ID, c.id+"/"))
	}
	return inv
}

// isSameObject reports whether two objects have the same name and uid.
func isSameObject(left, given client.Object) bool {
	if value := reflect.ValueOf(left); value.Kind() == reflect.Pointer && value.IsNil() {
		return false
	}
	return left.GetUID() == given.GetUID() && client.ObjectKeyFromObject(left) == client.ObjectKeyFromObject(given)
}

// newEngineCall returns the call as the engine would make it, and sets the request's Old and Diff.
func (inv *Invocation[T]) newEngineCall(t testing.TB, req *kopf.Request[T]) *invoke.Request {
	t.Helper()
	c := inv.call
	engineCall := &invoke.Request{
		ID: c.id, Object: req.Object, OldKnown: true, Reason: string(c.reason), Event: string(c.event), Attempt: c.attempt,
		ReceivesDiff: c.changes, SubFinished: func(sub invoke.SubHandler) bool { return slices.Contains(c.finished, sub.ID) },
		Notify: func(_ client.Object, eventType, reason, action, note string, args ...any) {
			inv.Events = append(inv.Events, Event{eventType, reason, action, fmt.Sprintf(note, args...)})
		},
		Flush: func(context.Context) error {
			inv.Flushed = append(inv.Flushed, req.Object.DeepCopyObject().(T))
			return nil
		},
	}
	if c.old != nil {
		old, ok := c.old.DeepCopyObject().(T)
		if !ok {
			t.Fatalf("kopftest: the old object is a %T, but the handler is for %T", c.old, req.Object)
		}
		req.Old, engineCall.Old = old, old
	}
	old, present := buildEssence(t, c.old, c.path), buildEssence(t, req.Object, c.path)
	switch c.reason {
	case kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete, kopf.ReasonResume:
		req.Diff = diff.Of(old, present)
	default: // these reasons have no diff
	}
	if len(c.path) > 0 {
		req.Diff = req.Diff.Reduce(c.path...)
		engineCall.Field[0], _ = diff.Lookup(old, c.path...)
		engineCall.Field[1], _ = diff.Lookup(present, c.path...)
	}
	engineCall.Diff = req.Diff
	return engineCall
}

// Condition returns a condition in Object's status, or the zero value if it doesn't have one of this type.
func (inv *Invocation[T]) Condition(conditionType string) metav1.Condition {
	set, err := conditions.For(inv.Object)
	if err != nil {
		return metav1.Condition{}
	}
	found, _ := set.Get(conditionType)
	return found
}

// buildEssence returns an object's essence, or nil if obj is nil.
func buildEssence(t testing.TB, obj client.Object, path []string) any {
	t.Helper()
	if obj == nil {
		return nil
	}
	shape := essence.Builder{Cleaners: []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}}
	if len(path) > 0 {
		shape.Fields = [][]string{path} // the field of a field handler is always part of the essence
	}
	return shape.Build(toContent(t, obj))
}

func toContent(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	content, err := patch.JSONTypedContent(obj)
	if err != nil {
		t.Fatalf("kopftest: encode %T: %v", obj, err)
	}
	return content
}
