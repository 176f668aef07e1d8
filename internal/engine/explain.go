package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Explain describes how the engine would handle a key's object, and why. It detects the cause and plans the calls like a reconcile. It
// calls the handlers' predicates, but no handlers, and writes nothing.
func (e *Engine) Explain(ctx context.Context, key types.NamespacedName) (*explain.Explanation, error) {
	ctx = log.IntoContext(ctx, logr.Discard())
	x := &explanation{Explanation: &explain.Explanation{
		APIVersion: e.GVK.GroupVersion().String(), Kind: e.GVK.Kind, Namespace: key.Namespace, Name: key.Name,
		Source: explain.FromOperator, Time: now(), Cause: "unknown",
	}, engine: e}
	if !e.inScope(key) {
		x.Waits = append(x.Waits, e.holdScope(key).Message)
		return x.Explanation, nil
	}
	obj, err := e.observedObject(ctx, key)
	if err != nil {
		return nil, err
	}
	if obj == nil {
		return x.Explanation, x.ofUnobserved(ctx, key)
	}
	known := e.copyState(ctx, obj.GetUID())
	if known == nil {
		known, x.Running = &objectState{}, true
		x.unknown("what the operator keeps in memory, while it reconciles the object: try again")
	}
	x.r = e.newReconciliation(known)
	x.r.session.Pauses = e.pause.count.Load()
	x.ofObject(obj)
	x.ofHolds(subject{key: key, obj: obj, known: known})
	if err := x.evaluate(ctx, obj); err != nil {
		x.waitf("%s", err)
		return x.Explanation, nil
	}
	x.ofCause(ctx)
	x.ofOthers(ctx)
	x.ofQueue(key, obj)
	for _, hold := range x.holds {
		x.keepBack(hold)
	}
	return x.Explanation, nil
}

// keepBack corrects the state of handlers that would be called now if there were no hold. The hold of a loop doesn't change any state,
// because it affects only calls that handlers have caused.
func (x *explanation) keepBack(hold Hold) {
	if hold.Scope == HoldsRelease || hold.Reason == HeldByLoop {
		return
	}
	for i := range x.Handlers {
		one := &x.Handlers[i]
		isOfCause := one.Kind == "cause" || one.Kind == "sub"
		if one.State != explain.Due || hold.Scope == HoldsCauses && !isOfCause || x.engine.isBackground(one.ID) {
			continue
		}
		one.State, one.Why = explain.Waiting, hold.Message
		if hold.Until.After(x.Time) {
			one.Due = new(hold.Until)
		}
	}
}

// isBackground reports whether a handler is a daemon or a timer.
func (e *Engine) isBackground(id string) bool {
	_, found := e.BackgroundHandlers.Get(id)
	return found
}

// ofUndecodable explains an object that doesn't decode into its Go type. If decoding is not the problem, it returns failure.
func (x *explanation) ofUndecodable(ctx context.Context, key types.NamespacedName, failure error) error {
	raw, fault := x.engine.findFault(ctx, key)
	if fault == nil {
		return failure
	}
	x.ofObject(raw)
	x.waitf("the operator does not handle the object, because it does not decode into %T: correct the field %v", x.engine.New(), fault)
	return nil
}

// explanation is an explanation under construction.
type explanation struct {
	*explain.Explanation
	engine *Engine
	r      *reconciliation
	holds  []Hold
}

func (x *explanation) waitf(format string, args ...any) {
	x.Waits = append(x.Waits, fmt.Sprintf(format, args...))
}

func (x *explanation) unknown(text string) { x.Unknown = append(x.Unknown, text) }

// ofUnobserved explains an object that the informer hasn't delivered.
func (x *explanation) ofUnobserved(ctx context.Context, key types.NamespacedName) error {
	obj, err := x.engine.readObject(ctx, x.engine.APIReader, key)
	if err != nil {
		return x.ofUndecodable(ctx, key, err)
	}
	if obj == nil {
		x.Cause = string(cause.Gone)
		x.ofVanished(key)
		return nil
	}
	x.ofObject(obj)
	x.ofHolds(subject{key: key, obj: obj, known: &objectState{}})
	x.waitf("the operator does not see the object: its cache is restricted to other namespaces, labels, fields or shards, or it has not received the object yet")
	return nil
}

func (x *explanation) ofObject(obj client.Object) {
	x.Deleting, x.Finalizer = obj.GetDeletionTimestamp() != nil, x.engine.hasFinalizer(obj)
	x.OtherFinalizers = slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(name string) bool {
		return x.engine.traits.usesFinalizer && name == x.engine.Finalizer
	})
}

// ofHolds explains why some or all handlers aren't called for the object at the moment.
func (x *explanation) ofHolds(s subject) {
	x.holds = x.engine.holdsOf(s)
	for _, hold := range x.holds {
		x.Waits = append(x.Waits, hold.Message)
	}
	if err := x.engine.queue.failures.Get(s.key).err; err != nil {
		x.waitf("the last reconcile has failed and is repeated: %v", err)
	}
	if details := s.known.Worker.Details; details != nil && details.Memory.Overlay != nil {
		overlay := details.Memory.Overlay
		x.unknown("whether the progress survives a restart: the API server has rejected it (" + overlay.Message + "), and it is kept in memory")
	}
}

// evaluate detects the cause and plans the calls like a reconcile.
func (x *explanation) evaluate(ctx context.Context, obj client.Object) error {
	e, r := x.engine, x.r
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(obj.GetUID()))
	if err := r.draft.SetBase(obj); err != nil {
		return err
	}
	if err := r.session.UseOverlay(ctx); err != nil {
		return err
	}
	e.detect(ctx, r, func(err error) { x.unknown(err.Error()) })
	e.selectHandlers(ctx, r)
	e.makePlan(ctx, r)
	detected := r.matching.detected
	if r.session.Cause.Reason == cause.Revision {
		detected = cause.Revision
	}
	x.Cause = string(detected)
	if len(e.Handlers.IDs()) == 0 {
		x.Cause = "none"
		return nil
	}
	for _, item := range r.session.Cause.Diff {
		switch {
		case len(item.Path) == 0:
		case invoke.IsOfConditions(item):
			x.Changed = append(x.Changed, "status.conditions."+strings.TrimPrefix(item.Path.String(), essence.ConditionsKey+"."))
		default:
			x.Changed = append(x.Changed, item.Path.String())
		}
	}
	if detected.HasHandlers() && r.session.Cause.WasEdited() {
		x.waitf("the object was edited after its handlers began: the edit is handled when they have finished")
	}
	if detected == cause.Update && !r.session.Cause.IsOldKnown() {
		x.unknown("which fields have changed: only a digest of the last-handled configuration is stored")
	}
	return nil
}

// ofCause explains the cause handlers.
func (x *explanation) ofCause(ctx context.Context) {
	e, r := x.engine, x.r
	situation := match.Cause{
		Reason: string(r.session.Cause.Reason), Initial: cause.RunsResumeHandlers(r.session.Cause.Reason, r.session.Cause.Facts), Deleting: r.session.Cause.Facts.Deleting,
	}
	for id, h := range e.Handlers.All() {
		one := explain.Handler{ID: id, Kind: "cause"}
		logger := log.FromContext(ctx)
		refusal := plan.MatchObject(logger, id, h, r.matching.view, r.subject())
		switch {
		case !refusal.Accepts():
			one.State, one.Why = explain.Filtered, x.textOf(refusal)
		case !r.session.Cause.Reason.HasHandlers():
			one.State, one.Why = explain.NotSelected, "there is no change for it"
		case slices.Contains(r.matching.selection.Selected, id):
			x.ofRecord(&one, h)
		default:
			refusal = plan.MatchCause(logger, id, h, r.matching.view, situation, r.subject())
			one.State, one.Why = explain.NotSelected, x.textOf(refusal)
			if r.session.Cause.Reason == cause.Revision && h.Revision > 0 {
				one.Why = "the object was handled with its revision"
			} else if refusal.Rule == match.OtherReason {
				one.Why = "it is for " + strings.Join(h.Reasons, ", ") + ", not for " + x.Cause
			}
		}
		x.Handlers = append(x.Handlers, one)
		if slices.Contains(r.matching.selection.Selected, id) {
			x.ofSubHandlers(r.session.Records.Record(id))
		}
	}
}

// ofRecord explains a handler that is selected for the cause.
func (x *explanation) ofRecord(one *explain.Handler, h *invoke.Handler) {
	r, record := x.r, x.r.session.Records.Record(one.ID)
	setRecord(one, record)
	switch {
	case record.Success:
		one.State, one.LastError = explain.Succeeded, ""
	case record.Failure:
		one.State = explain.Failed
	case slices.Contains(r.calls.plan.Blocked, one.ID):
		one.State, one.Why = explain.Blocked, "it comes after "+strings.Join(x.unfinished(h.After), ", ")
	case !record.Due(x.Time):
		one.State, one.Due = explain.Waiting, new(record.Delayed)
		if record.WaitsForSubs() {
			one.Why = "it waits for its sub-handlers"
		}
	case r.session.Cause.Reversed:
		one.State, one.Why = explain.Due, "the change was undone before all handlers had finished: it handles the old state again"
	case slices.Contains(r.calls.plan.Next, one.ID):
		one.State = explain.Due
	default:
		one.State, one.Why = explain.Due, "the lifecycle calls other handlers first"
	}
}

// unfinished returns the quoted ids of those given handlers that are selected for the cause but haven't succeeded.
func (x *explanation) unfinished(ids []string) (quoted []string) {
	for _, id := range ids {
		if slices.Contains(x.r.matching.selection.Selected, id) && !x.r.session.Records.Record(id).Success {
			quoted = append(quoted, fmt.Sprintf("%q", id))
		}
	}
	return quoted
}

// ofSubHandlers explains the sub-handlers that a handler has declared so far.
func (x *explanation) ofSubHandlers(parent progress.Record) {
	for _, id := range parent.Subrefs {
		record := x.r.session.Records.Record(id)
		if record.Started.IsZero() || record.Purpose != "" && record.Purpose != parent.Purpose {
			continue // it belongs to an earlier cause
		}
		one := explain.Handler{ID: id, Kind: "sub", State: stateOf(record)}
		if setRecord(&one, record); record.Success {
			one.LastError = ""
		}
		if one.State == explain.Waiting {
			one.Due = new(record.Delayed)
		}
		if record.WaitsForSubs() {
			one.Why = "it waits for its sub-handlers"
		}
		x.Handlers = append(x.Handlers, one)
	}
}

// ofOthers explains the handlers without a cause.
func (x *explanation) ofOthers(ctx context.Context) {
	e, r := x.engine, x.r
	input := match.Input{Object: r.draft.Content()}
	add := func(id, kind string, h *invoke.Handler, view *invoke.View, describe func(*explain.Handler)) {
		one := explain.Handler{ID: id, Kind: kind, State: explain.Active}
		if refusal := plan.MatchObject(log.FromContext(ctx), id, h, view, input); !refusal.Accepts() {
			one.State, one.Why = explain.Filtered, x.textOf(refusal)
		} else {
			describe(&one)
		}
		x.Handlers = append(x.Handlers, one)
	}
	for id, h := range e.EventHandlers.All() {
		add(id, "event", h, r.matching.view, func(one *explain.Handler) { one.Why = "it is called for every event of the object" })
	}
	for id, h := range e.ReconcileHandlers.All() {
		if h.ClusterEvents != "" {
			add(id, reasonClusterEvent, h, r.matching.view, x.ofClusterEvents(h))
			continue
		}
		add(id, "reconcile", h, r.matching.view, x.ofReconcileHandler(h))
	}
	for id, b := range e.BackgroundHandlers.All() {
		add(id, b.Reason(), &b.Handler, r.matching.view, x.ofBackground)
	}
	for id, index := range e.Indexes.All() {
		add(id, "index", &index.Handler, r.matching.view, func(one *explain.Handler) {
			record := e.others.indexFailures.Get(handlerKey{r.draft.Base().GetUID(), id})
			one.Attempts, one.LastError = record.Retries, record.Message
		})
	}
}

func (x *explanation) ofReconcileHandler(h *invoke.Handler) func(*explain.Handler) {
	return func(one *explain.Handler) {
		st := x.r.details.ReconcileHandlers[one.ID]
		if st == nil {
			one.State = explain.Due
			return
		}
		one.Attempts, one.LastError = st.record.Retries, st.record.Message
		first := x.r.blockingHandler(h)
		switch {
		case first != "" && st.isDue(x.Time, false):
			one.State, one.Why = explain.Blocked, fmt.Sprintf("it comes after %q", first)
		case st.failed && !st.dirty:
			one.State, one.Why = explain.Failed, "it is called again when the object changes"
		case st.isDue(x.Time, false):
			one.State = explain.Due
		case !st.due.IsZero():
			one.State, one.Due = explain.Waiting, &st.due
		default:
			one.Why = "it is called when the object changes"
		}
	}
}

func (x *explanation) ofBackground(one *explain.Handler) {
	status := x.engine.background.supervisor.Status(daemons.Key{UID: x.r.draft.Base().GetUID(), ID: one.ID})
	one.Attempts, one.LastError = status.Attempts, status.LastError
	if !status.Due.IsZero() {
		one.Due = &status.Due
	}
	switch status.State {
	case daemons.StateAbsent:
		one.State, one.Why = explain.Stopped, "it is started by the next reconcile"
		switch {
		case x.Deleting:
			one.Why = "the object is being deleted"
		case x.engine.paused(x.Namespace) || IsObjectPaused(x.r.draft.Base()):
			one.State, one.Why = explain.Paused, ""
		}
	case daemons.StatePaused:
		one.State = explain.Paused
	case daemons.StateWaiting:
		one.State = explain.Waiting
	case daemons.StateQueued:
		one.State, one.Why = explain.Due, "it waits until timers of other objects have finished"
	case daemons.StateRunning:
		one.Why = "it is running"
	case daemons.StateStopping:
		one.State, one.Why = explain.Active, "its context is cancelled, and it has not returned yet"
	case daemons.StateIdle:
		one.Why = "it is called again when the object changes"
	case daemons.StateFailed:
		one.State, one.Why = explain.Failed, "it is started again when the object changes"
	case daemons.StateEnded:
		one.State = explain.Ended
	}
}

// textOf explains a refusal without the values of Secrets and annotations, which may be confidential.
func (x *explanation) textOf(refusal match.Refusal) string {
	if refusal.Rule == match.Annotation || x.engine.IsSecret() && refusal.Rule != match.Label || refusal.Name == "metadata" || strings.HasPrefix(refusal.Name, "metadata.annotations") {
		return refusal.String()
	}
	return refusal.WithValues()
}

// ofClusterEvents explains a handler for Kubernetes Events.
func (x *explanation) ofClusterEvents(h *invoke.Handler) func(*explain.Handler) {
	return func(one *explain.Handler) {
		one.Why = "it is called for " + h.ClusterEvents
		waiting := len(x.engine.others.clusterEvents.Get(handlerKey{x.r.draft.Base().GetUID(), one.ID}))
		if waiting == 0 {
			return
		}
		one.State, one.Why = explain.Due, fmt.Sprintf("%d Events wait for it", waiting)
		if st := x.r.details.ReconcileHandlers[one.ID]; st != nil {
			one.Attempts, one.LastError = st.record.Retries, st.record.Message
			if st.due.After(x.Time) {
				one.State, one.Due = explain.Waiting, &st.due
			}
		}
	}
}

// ofVanished explains an object that no longer exists, but whose delete handlers are called from memory.
func (x *explanation) ofVanished(key types.NamespacedName) {
	if len(x.engine.gone.tombstones.Get(key)) == 0 {
		return
	}
	x.Cause, x.Deleting = string(cause.Delete), true
	x.Handlers = x.engine.pendingDeletion(key)
	x.waitf("the object does not exist any more: the operator calls its delete handlers with its last known state, until they have finished or the operator ends")
}

// ofQueue explains why no worker reconciles the object: it has been in the queue for at least longQueued, or predicates have rejected its
// last event although handlers are due.
func (x *explanation) ofQueue(key types.NamespacedName, obj client.Object) {
	e := x.engine
	isDue := slices.ContainsFunc(x.Handlers, func(h explain.Handler) bool { return h.State == explain.Due })
	since, queued := e.states.QueuedSince(key)
	switch {
	case queued && x.Time.Sub(since) >= longQueued:
		n, _ := e.states.QueueStats()
		x.waitf("it has been in the queue for %s, with %d other objects: the workers of the kind are busy; see MaxConcurrentReconciles of WithControllerOptions, or look for slow handlers",
			x.Time.Sub(since).Round(time.Second), n-1)
	case !queued && isDue && e.states.IsSkipped(obj):
		x.waitf("the predicates of the controller (WithPredicates) have rejected the last event of the object: its handlers are called after the next event that they accept")
	}
}

// longQueued is the shortest time in the queue worth mentioning.
const longQueued = time.Second
