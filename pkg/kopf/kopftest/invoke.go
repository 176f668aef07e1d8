package kopftest

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Invocation is what one call of a handler has come to.
type Invocation[T client.Object] struct {
	// Outcome says how the attempt has ended, and what follows: with the error, and the delay if the handler would be
	// called again. A panic is an error, as it is in an operator.
	Outcome progress.Outcome
	// RequeueAfter is when a level-triggered handler wants to be called again, all being well; 0: it has not said.
	RequeueAfter time.Duration
	// Object is as the handler has left it: what would be patched. The handler may have put another copy of the object into the request; an
	// operator refuses another object there, which is not found here.
	Object T
	// Changes lead from the object as it was given to Object.
	Changes diff.Diff
	// Result is what the handler has set by SetResult, in its JSON form.
	Result any
	// Events are those that the handler has posted.
	Events []Event
	// Flushed are copies of the object, one for each call of Flush.
	Flushed []T
	// Writes are the requests of its client that were to change something: see [Write].
	Writes []Write
	// SubHandlers are the ids of the sub-handlers that it has declared, without its own: see [Invocation.InvokeSubHandler].
	SubHandlers []string

	subs []engine.Sub
	call call
}

// An Event is a Kubernetes Event that was posted: of an [Invocation], by the handler; of an [Operator] and of a [Report] also by the
// operator itself, such as HandlerFailed.
type Event struct{ Type, Reason, Action, Note string }

// String is as kubectl shows it: "Warning Busy: the cloud is busy".
func (e Event) String() string { return fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note) }

// An InvokeOption is what else there is about a call.
type InvokeOption func(*call)

// A call is what the handler is to be told.
type call struct {
	reason     kopf.Reason
	old        client.Object
	path       []string
	changes    bool // it is told what has changed
	event      watch.EventType
	attempt    progress.Attempt
	policy     progress.Policy
	id         string
	ctx        context.Context
	cluster    *Cluster
	made       bool        // the cluster, for this call
	connection *connection // of the request's client
	client     client.Client
	scheme     *runtime.Scheme
	others     []client.Object
}

// WithReason sets the reason. Default: [kopf.ReasonCreate], with [WithOldObject] [kopf.ReasonUpdate].
func WithReason(reason kopf.Reason) InvokeOption { return func(c *call) { c.reason = reason } }

// From makes it an update: the object as it was last handled. Old and Diff of the request are made of it.
func WithOldObject(old client.Object) InvokeOption { return func(c *call) { c.old = old } }

// WithField makes it a handler of a field, by its dotted path, with "\." for a dot within a key: Diff is about what is below the field, and Field() tells
// its values. See [kopf.Field].
func WithField(path string) InvokeOption {
	return func(c *call) { c.path, c.changes = explore.SplitPath(path), true }
}

// WithEventType makes it a call for an event: how the state of the object has come. See [kopf.Resource.OnEvent].
func WithEventType(event watch.EventType) InvokeOption {
	return func(c *call) { c.reason, c.event = kopf.ReasonEvent, event }
}

// WithAttempt sets which attempt it is. Default: the first, started now.
func WithAttempt(attempt progress.Attempt) InvokeOption { return func(c *call) { c.attempt = attempt } }

// WithPolicy has the outcome judged by limits and pauses. Default: as without options of the handler.
func WithPolicy(policy progress.Policy) InvokeOption { return func(c *call) { c.policy = policy } }

// WithContext sets the context of the call: for deadlines, cancellations, and memos (see [Context]). Default: that
// of the test.
func WithContext(ctx context.Context) InvokeOption { return func(c *call) { c.ctx = ctx } }

// WithCluster has the client of the request lead there. Default: a cluster in memory with the object and
// those of [WithObjects].
func WithCluster(cluster *Cluster) InvokeOption { return func(c *call) { c.cluster = cluster } }

// WithObjects puts more objects into the cluster in memory that the request's client leads to.
func WithObjects(objs ...client.Object) InvokeOption {
	return func(c *call) { c.others = append(c.others, objs...) }
}

// WithScheme sets the scheme of the request's client. Default: that of client-go, which knows the built-in kinds.
func WithScheme(scheme *runtime.Scheme) InvokeOption { return func(c *call) { c.scheme = scheme } }

// Context makes a context like that of a handler: with it, memos can be filled before a call, and looked at
// after it.
//
//	ctx := kopftest.Context(t)
//	connections.Store(ctx, fake)
//	kopftest.Invoke(t, provision, db, kopftest.WithContext(ctx))
func Context(t testing.TB) context.Context {
	return objectstate.ContextWithMemos(t.Context(), &objectstate.Memos{})
}

// Invoke calls a handler once for an object, without any operator, and tells what has come of it. The object is not
// changed: the handler gets a copy, with the uid, resourceVersion, generation and creationTimestamp that it has in the cluster in memory,
// if it has none of its own.
//
//	got := kopftest.Invoke(t, provision, db, kopftest.WithOldObject(before))
//	if got.Outcome.Delay != 10*time.Second { ... }
//
// Filters, and options of the handler such as Retries, are not looked at: [Cycle] does all that an operator does.
func Invoke[T client.Object](t testing.TB, fn kopf.Handler[T], obj T, opts ...InvokeOption) *Invocation[T] {
	t.Helper()
	return invoke(t, newCall(t, obj, opts), obj, func(ctx context.Context, req *kopf.Request[T], told *engine.Call) error {
		testhook.BindCall(req, told)
		return testhook.FinishCall(req, fn(ctx, req))
	})
}

// InvokeSubHandler calls a sub-handler that the handler has declared, by its id, with the object as the handler has left it.
func (inv *Invocation[T]) InvokeSubHandler(t testing.TB, id string) *Invocation[T] {
	t.Helper()
	for _, sub := range inv.subs {
		if sub.ID != inv.call.id+"/"+id {
			continue
		}
		c := inv.call
		c.id, c.policy, c.attempt = sub.ID, sub.Policy, progress.Attempt{Started: time.Now()}
		c.path, c.changes = nil, sub.ReceivesDiff(string(c.reason))
		if sub.Field != nil {
			c.path = sub.Field.Path
		}
		return invoke(t, c, inv.Object, func(ctx context.Context, _ *kopf.Request[T], told *engine.Call) error {
			return sub.Do(ctx, told)
		})
	}
	t.Fatalf("kopftest: the handler has declared no sub-handler %q, but these: %q", id, inv.SubHandlers)
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
		c.attempt.Started = time.Now()
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

func invoke[T client.Object](
	t testing.TB, c call, obj T, do func(ctx context.Context, req *kopf.Request[T], told *engine.Call) error,
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
	told := inv.told(t, req)
	record := progress.Record{Started: c.attempt.Started, Retries: c.attempt.Number, Message: c.attempt.Last}
	written := len(c.connection.writes())
	inv.Outcome = c.policy.Attempt(c.ctx, record, time.Now(), func(ctx context.Context) error { return do(ctx, req, told) })
	if left, ok := told.Object.(T); ok && isSameObject(left, obj) {
		inv.Object = left
	}
	inv.Writes = c.connection.writes()[written:]
	if isNotRegisteredError(inv.Outcome.Err) {
		t.Logf("kopftest: the client of the request does not know a Go type that the handler uses: name a scheme by WithScheme")
	}
	inv.Result, inv.RequeueAfter, inv.subs = told.Result, told.Again, told.Subs
	inv.Changes = diff.Of(toContent(t, obj), toContent(t, inv.Object))
	for _, sub := range told.Subs {
		inv.SubHandlers = append(inv.SubHandlers, strings.TrimPrefix(sub.ID, c.id+"/"))
	}
	return inv
}

// isSameObject reports whether a handler has left the object that it was given, or another copy of it.
func isSameObject(left, given client.Object) bool {
	if value := reflect.ValueOf(left); value.Kind() == reflect.Pointer && value.IsNil() {
		return false
	}
	return left.GetUID() == given.GetUID() && client.ObjectKeyFromObject(left) == client.ObjectKeyFromObject(given)
}

// told is what a call knows beside the fields of the request; it sets Old and Diff of that on the way.
func (inv *Invocation[T]) told(t testing.TB, req *kopf.Request[T]) *engine.Call {
	t.Helper()
	c := inv.call
	told := &engine.Call{
		ID: c.id, Object: req.Object, OldKnown: true, Reason: string(c.reason), Event: string(c.event), Attempt: c.attempt,
		Changes: c.changes,
		Notify: func(eventType, reason, action, note string, args ...any) {
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
			t.Fatalf("kopftest: From was given a %T for a handler of %T: give it the object as it was before", c.old, req.Object)
		}
		req.Old, told.Old = old, old
	}
	then, now := buildEssence(t, c.old, c.path), buildEssence(t, req.Object, c.path)
	switch c.reason {
	case kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete, kopf.ReasonResume:
		req.Diff = diff.Of(then, now)
	default: // nothing has happened to the object
	}
	if len(c.path) > 0 {
		req.Diff = req.Diff.Reduce(c.path...)
		told.Field[0], _ = diff.Lookup(then, c.path...)
		told.Field[1], _ = diff.Lookup(now, c.path...)
	}
	told.Diff = req.Diff
	return told
}

// Condition is a condition of the object as the handler has left it, in status.conditions and nowhere else; the zero value if it has none of
// this type.
func (inv *Invocation[T]) Condition(conditionType string) metav1.Condition {
	set, err := conditions.For(inv.Object)
	if err != nil {
		return metav1.Condition{}
	}
	found, _ := set.Get(conditionType)
	return found
}

// essenceOf is what of an object counts as a change; nil if there is no object.
func buildEssence(t testing.TB, obj client.Object, path []string) any {
	t.Helper()
	if obj == nil {
		return nil
	}
	shape := essence.Builder{Cleaners: []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}}
	if len(path) > 0 {
		shape.Fields = [][]string{path} // a field counts wherever it is
	}
	return shape.Build(toContent(t, obj))
}

// contentOf is the JSON form of an object.
func toContent(t testing.TB, obj client.Object) map[string]any {
	t.Helper()
	content, err := patch.NormalizedContent(obj)
	if err != nil {
		t.Fatalf("kopftest: the %T has no JSON form: %v", obj, err)
	}
	return content
}
