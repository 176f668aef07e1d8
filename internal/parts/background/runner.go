package background

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/plan"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Runner runs the daemons and timers of the objects of one kind. It is safe for concurrent use.
type Runner struct {
	// Name is the controller's name.
	Name       string
	Handlers   *invoke.Registry[*invoke.BackgroundHandler]
	Supervisor *daemons.Supervisor
	Committer  *commit.Committer
	Objects    Objects
	Hooks      *invoke.Hooks // nil without hooks
	// Results is the path of the field that holds the handlers' results by id.
	Results []string
	// NewView returns a handler's view of an object.
	NewView func(obj client.Object, reason string) *invoke.View
	// Report reports the outcome of an attempt. obj is nil for a deleted object. failed says whether a permanent failure was the last thing
	// reported. Report returns the new value of failed.
	Report func(uid types.UID, obj client.Object, id string, failed bool, before progress.Record, outcome progress.Outcome) (fails bool)
	// Enqueue enqueues an object for a reconcile.
	Enqueue func(types.UID)
	// Leaves reports whether a different process is going to handle the object. [Runner.Start] then doesn't start daemons and timers for
	// it.
	Leaves func(client.Object) bool
	// OnCall is called before each call of a daemon or timer. The function it returns is called afterwards.
	OnCall func(uid types.UID, id string) func()
	// LoggerFor returns the logger for an object.
	LoggerFor func(client.Object) logr.Logger
}

// Objects are the known states of the objects.
type Objects interface {
	Newest(uid types.UID) client.Object
	UpdateIfNewer(obj client.Object)
	Memos(uid types.UID) *objectstate.Memos
}

// Select returns the ids of the daemons and timers whose filters accept the object, and stops those whose filters reject it. If the object
// is being deleted, Select stops all of them and returns no ids. view and content are the object in the forms that the filters need.
func (r *Runner) Select(ctx context.Context, obj client.Object, view *invoke.View, content map[string]any) (ids []string) {
	r.Objects.UpdateIfNewer(obj)
	if obj.GetDeletionTimestamp() != nil {
		r.Supervisor.StopAll(obj.GetUID(), daemons.ErrDeleted)
		return nil
	}
	for id, handler := range r.Handlers.All() {
		if !plan.MatchObject(log.FromContext(ctx), id, &handler.Handler, view, match.Input{Object: content}).Accepts() {
			r.Supervisor.Stop(daemons.Key{UID: obj.GetUID(), ID: id}, daemons.ErrFilteredOut)
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

// NeedsFinalizer reports whether one of the object's daemons and timers is running or may still be started. ids are the selected ones.
func (r *Runner) NeedsFinalizer(uid types.UID, ids []string) bool {
	return r.Supervisor.Busy(uid) || slices.ContainsFunc(ids, func(id string) bool {
		return !r.Supervisor.Ended(daemons.Key{UID: uid, ID: id})
	})
}

// NeedsStart reports whether any of the selected daemons and timers must be started. Those that have ended are not started again.
func (r *Runner) NeedsStart(uid types.UID, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool { return r.Supervisor.NeedsStart(daemons.Key{UID: uid, ID: id}) })
}

// Start starts the selected daemons and timers that must be started (see [Runner.NeedsStart]). isNew says whether the object was created
// after the process had started.
func (r *Runner) Start(ctx context.Context, obj client.Object, ids []string, state *State, isNew bool) {
	for _, id := range ids {
		key := daemons.Key{UID: obj.GetUID(), ID: id}
		newest := r.Objects.Newest(key.UID)
		if !r.Supervisor.NeedsStart(key) || newest == nil || newest.GetDeletionTimestamp() != nil || r.Leaves(newest) {
			continue
		}
		handler, _ := r.Handlers.Get(id)
		task, err := r.taskFor(obj, id, handler, state, isNew)
		if err == nil {
			err = r.Supervisor.Ensure(key, task)
		}
		if err != nil {
			guard.WithStack(log.FromContext(ctx), err).Error(err, "Failed to start a daemon or timer; retrying when the object changes", "handler", id)
		}
	}
}

func (r *Runner) taskFor(obj client.Object, id string, b *invoke.BackgroundHandler, state *State, isNew bool) (daemons.Task, error) {
	task := b.Task
	task.Policy, task.Kind, task.Object = b.Policy, r.Name, client.ObjectKeyFromObject(obj)
	uid := obj.GetUID()
	endAttempt := func(progress.Outcome) {}
	task.Run = func(ctx context.Context, attempt progress.Attempt) error {
		return r.invoke(ctx, uid, id, b, state, attempt, &endAttempt)
	}
	task.OnAttempt = func(before progress.Record, outcome progress.Outcome) {
		endAttempt(outcome) // even after a panic; only the first call for an attempt counts
		b.Warnings.WarnMissingUnit(func() logr.Logger {
			return r.loggerOf(task.Object, uid).WithValues("handler", id, "reason", b.Reason())
		}, outcome)
		state.reportOutcome(id, func(failed bool) bool {
			return r.Report(uid, r.Objects.Newest(uid), id, failed, before, outcome)
		})
	}
	if b.InitialDelay != nil {
		err := guard.Catch("InitialDelayFunc", func() error {
			task.InitialDelay = max(0, b.InitialDelay(obj.DeepCopyObject().(client.Object)))
			return nil
		})
		if err != nil {
			return task, err
		}
	}
	if t := b.Task.Timer; t != nil && t.Sharp && t.Anchor.IsZero() {
		anchored := *t
		anchored.Anchor = obj.GetCreationTimestamp().Time
		if isNew && state.isFirstStart(id) && time.Since(anchored.Anchor) < t.Interval {
			anchored.Last = anchored.Anchor.Add(-1) // a new object's first call is due at its creation time
		}
		task.Timer = &anchored
	}
	return task, nil
}

// loggerOf returns the logger for an object. It isn't kept for each daemon and timer, because it needs as much memory as a timer.
func (r *Runner) loggerOf(key types.NamespacedName, uid types.UID) logr.Logger {
	return r.LoggerFor(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}})
}

// Touch makes the supervisor aware of an essence change by another client. This resets the timers' idle times, and starts timers that
// wait for a change.
func (r *Runner) Touch(obj client.Object, live map[string]any, state *State) {
	if state.noteEssence(essence.DigestOf(live), obj.GetResourceVersion()) {
		r.Supervisor.Touch(obj.GetUID())
	}
}
