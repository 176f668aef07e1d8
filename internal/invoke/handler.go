package invoke

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Handler is a registered function with the conditions under which it is called. All kinds of handlers use it.
type Handler struct {
	match.Criteria
	// When are additional predicates. All of them must return true.
	When []func(*Request) bool
	// Changed reports whether a cause contains a change that the handler handles. It is optional.
	Changed func(*Request) bool
	// Store keeps the handler's records. By default, the operator's store does.
	Store progress.Store
	// EarlierIDs are ids under which the handler's progress may be stored.
	EarlierIDs []string
	// Revision is the number of the handler's logic: objects that were handled with a smaller one are handled again. 0 means none.
	Revision int
	// After are the ids of the handlers that must succeed before this one is called. For a reconcile handler, their last calls must have
	// succeeded.
	After  []string
	Policy progress.Policy
	// MetricLabel is the label in metrics, for handlers with many ids. Default: the id.
	MetricLabel string
	// Interval is the time between calls of a reconcile handler. If it is 0, the handler is called only after changes.
	Interval time.Duration
	// RetriesOnRelatedChange makes a cause handler that waits for its next attempt due when a related object changes.
	RetriesOnRelatedChange bool
	// CalledAfterDeletion also calls a reconcile handler when an object no longer exists, as controller-runtime calls its reconcilers.
	CalledAfterDeletion bool
	// WritesChanges writes an event handler's changes and result.
	WritesChanges bool
	// CancelOnDelete cancels an attempt's context when the object is being deleted.
	CancelOnDelete bool
	// ClusterEvents describes the Kubernetes Events for which a reconcile handler is called, instead of for changes. It is empty for other
	// handlers.
	ClusterEvents string
	// ConditionType is the type of the condition that reports the handler's progress; empty if there is none.
	ConditionType string
	// Do is the user's function.
	Do func(ctx context.Context, req *Request) error
	// Warnings logs probable mistakes in the handler and its sub-handlers. It is optional.
	Warnings *Warnings
}

// SubHandler is a handler that a different handler has declared during an attempt.
type SubHandler struct {
	ID string // starts with the parent's id
	Handler
}

// Inherit sets what a sub-handler takes over from its parent. Call it after the sub-handler's filters were applied, because the sub-handler
// inherits the parent's field, but not its filter.
func (s *SubHandler) Inherit(parentID string, parent *Handler) {
	s.Reasons, s.AnyReason, s.CancelOnDelete, s.Warnings = parent.Reasons, parent.AnyReason, parent.CancelOnDelete, parent.Warnings
	s.RetriesOnRelatedChange = parent.RetriesOnRelatedChange
	s.MetricLabel = strings.TrimSuffix(cmp.Or(parent.MetricLabel, parentID), "/*") + "/*"
	if s.Field == nil {
		s.Field = parent.Field
	}
}

// BackgroundHandler is a daemon or a timer.
type BackgroundHandler struct {
	Handler
	// Task is the template for the tasks of all objects.
	Task daemons.Task
	// InitialDelay returns the initial delay for an object. If it is nil, the task's delay applies.
	InitialDelay func(client.Object) time.Duration
}

// Reason returns the reason in the handler's requests.
func (b *BackgroundHandler) Reason() string {
	if b.Task.Timer != nil {
		return "timer"
	}
	return "daemon"
}

// ClusterEvent is a Kubernetes Event about an object, or about an object that it owns.
type ClusterEvent struct {
	*corev1.Event
	// Earlier is true if the Event is from before the operator started, or from a pause.
	Earlier bool
	// Waiting returns other Events for the same handler and object that were received, but not handled yet. It can also return the state of
	// Event.
	Waiting func() []*corev1.Event
}

// IndexHandler is a handler that adds objects to an index.
type IndexHandler struct {
	Handler
	// Remove removes an object from the index.
	Remove func(types.UID)
	// Prune removes the objects for which keep returns false.
	Prune func(keep func(types.UID) bool)
	// Clear removes all objects. The index then no longer counts as synced.
	Clear func()
	// SetSynced records whether the index has seen the whole first list.
	SetSynced func(bool)
}

// Request is the input and output of one attempt. Package kopf converts it to a typed request.
type Request struct {
	ID     string
	Reason string
	Event  string // type of the watch event, for event handlers
	// ClusterEvent is the Kubernetes Event for which the handler is called; nil for other handlers.
	ClusterEvent *ClusterEvent
	// Object is the handler's copy. The engine writes its changes after the attempt.
	Object client.Object
	// Old is the object in its last-handled state. It is nil for a new object, and if OldKnown is false.
	Old      client.Object
	OldKnown bool
	Diff     diff.Diff
	// Handled is the state after Diff. It is nil unless Object is newer.
	Handled client.Object
	// Field holds the values of the handler's field before and after the change; nil if the field is absent.
	Field   [2]any
	Attempt progress.Attempt
	// ReceivesDiff is true if the handler handles a change.
	ReceivesDiff     bool
	ConditionOptions []conditions.Option
	// Flush writes the status changes before the attempt is over. It is nil for handlers that can't write.
	Flush func(ctx context.Context) error
	// WrapClient wraps the handler's client, so that its writes are recorded. It is optional.
	WrapClient func(client.Client) client.Client
	// Latest returns a copy of the newest known state of the object. It is optional.
	Latest func() client.Object
	// Track reads an object whose later changes trigger the handler. It is nil for handlers that aren't triggered in this way.
	Track func(ctx context.Context, obj client.Object) error
	// Notify posts an Event about the given object, or about Object if about is nil.
	Notify func(about client.Object, eventType, reason, action, note string, args ...any)

	// Result is set by the handler; nil if there is none.
	Result any
	// SubHandlers are set by the handler. The engine calls them after the handler has returned.
	SubHandlers []SubHandler
	// SubFinished reports whether a declared sub-handler needs no call, because it has finished or its filters don't match.
	SubFinished func(SubHandler) bool
	// AwaitsSubs is set by a handler that must be called again when its sub-handlers have finished.
	AwaitsSubs bool
	// SkipsDeletion is true if the handler isn't called for objects that are being deleted.
	SkipsDeletion bool
	// Requeue is set by a reconcile handler that asks for its next call.
	Requeue Requeue
}

// Requeue is how a reconcile handler asks for its next call.
type Requeue struct {
	// After is the time until the next call; 0 if the handler didn't ask for one.
	After time.Duration
	// RateLimited asks for the next call after the backoff, although the handler hasn't failed.
	RateLimited bool
	// Priority is the next call's priority in the queue, even after an error. If it is nil, the priority stays as it is.
	Priority *int
}

// View is the state of an object that handlers receive. One view can serve several attempts.
type View struct {
	// Object is copied for each attempt.
	Object client.Object
	Reason string
	Event  string
	// Old and Handled return copies for one attempt. They are optional.
	Old, Handled func() client.Object
	// OldUnknown is true if only a digest of the last-handled configuration is stored.
	OldUnknown bool
	Diff       diff.Diff
	// Before and After are the JSON forms from which the values of the handler's field are read.
	Before, After    map[string]any
	ConditionOptions []conditions.Option
	Latest           func() client.Object
	Notify           func(about client.Object, eventType, reason, action, note string, args ...any)

	// Fill sets Old, Handled, ConditionOptions, Latest and Notify when the first request is made, because most views never need them. It is
	// optional.
	Fill func(*View)

	predicateRequest *Request
	predicateObject  client.Object // the object for which predicateRequest was created
}

// NewRequest returns the request for one attempt of a handler.
func (v *View) NewRequest(id string, h *Handler, attempt progress.Attempt) *Request {
	req := v.newRequest()
	req.ID, req.Attempt, req.ReceivesDiff, req.Latest, req.Notify = id, attempt, h.ReceivesDiff(v.Reason), v.Latest, v.Notify
	req.SkipsDeletion = h.SkipsDeletion
	if h.Field != nil {
		req.Diff = slices.Clone(v.Diff).Reduce(h.Field.Path...)
		req.Field[0], _ = diff.Lookup(v.Before, h.Field.Path...)
		req.Field[1], _ = diff.Lookup(v.After, h.Field.Path...)
	}
	return req
}

// PredicateRequest returns the request that all handlers' predicates share. It is created when PredicateRequest is first called for an
// Object. As long as Object stays the same, the other fields must, too. PredicateRequest is not safe for concurrent use.
func (v *View) PredicateRequest() *Request {
	if v.predicateRequest == nil || v.predicateObject != v.Object {
		v.predicateRequest, v.predicateObject = v.newRequest(), v.Object
	}
	return v.predicateRequest
}

func (v *View) newRequest() *Request {
	if v.Fill != nil {
		v.Fill(v)
		v.Fill = nil
	}
	req := &Request{
		Object: patch.DeepCopy(v.Object), OldKnown: !v.OldUnknown, Diff: withoutConditions(v.Diff), Reason: v.Reason, Event: v.Event,
		ConditionOptions: v.ConditionOptions,
	}
	if v.Old != nil {
		req.Old = v.Old()
	}
	if v.Handled != nil {
		req.Handled = v.Handled()
	}
	return req
}

// withoutConditions removes the transitions of conditions from a diff, because handlers receive only fields of the object.
func withoutConditions(d diff.Diff) diff.Diff {
	out := slices.DeleteFunc(slices.Clone(d), IsOfConditions)
	for i, item := range out {
		if whole, ok := item.New.(map[string]any); ok && len(item.Path) == 0 && whole[essence.ConditionsKey] != nil {
			whole = maps.Clone(whole)
			delete(whole, essence.ConditionsKey)
			out[i].New = whole
		}
	}
	return out
}

// IsOfConditions reports whether a difference is a condition's transition.
func IsOfConditions(item diff.Item) bool {
	return len(item.Path) > 0 && item.Path[0] == essence.ConditionsKey
}

// AttemptInfo describes an attempt to a hook.
type AttemptInfo struct {
	Kind    schema.GroupVersionKind
	Object  types.NamespacedName
	UID     types.UID
	Handler string
	Reason  string
	Attempt progress.Attempt
	// CycleStarted is when the cycle began. It is zero for handlers without a cycle.
	CycleStarted time.Time
}

// AttemptHook is called before each attempt. The attempt uses the returned context, and passes its outcome to the returned function. Both
// results may be nil.
type AttemptHook func(ctx context.Context, a AttemptInfo) (context.Context, func(progress.Outcome))

// Hooks are an operator's hooks for the objects of one kind.
type Hooks struct {
	Kind schema.GroupVersionKind
	Each []AttemptHook
}

// exited is the outcome that hooks receive if an attempt neither returns nor panics.
var exited = progress.Outcome{Err: errors.New("attempt ended its goroutine without returning"), Attempted: true}

// Begin calls the hooks before an attempt for an object. The caller must use the returned context for the attempt and its sub-handlers, and
// must call end with the outcome. Only the first call of end counts.
func (h *Hooks) Begin(ctx context.Context, obj client.Object, info AttemptInfo) (attemptCtx context.Context, end func(progress.Outcome)) {
	if h == nil || len(h.Each) == 0 {
		return ctx, func(progress.Outcome) {}
	}
	info.Kind, info.Object, info.UID = h.Kind, client.ObjectKeyFromObject(obj), obj.GetUID()
	var ends []func(progress.Outcome)
	for _, hook := range h.Each {
		changed, ended := hook(ctx, info)
		if changed != nil {
			ctx = changed
		}
		if ended != nil {
			ends = append(ends, ended)
		}
	}
	return ctx, func(outcome progress.Outcome) {
		called := ends
		ends = nil
		for _, ended := range called {
			defer ended(outcome) // the last one first, and all of them even if one panics
		}
	}
}
