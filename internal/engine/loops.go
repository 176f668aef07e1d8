package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/loopguard"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// The Event and the condition that report a loop.
const (
	handlerLoop      = "HandlerLoop"
	reasonOwnChanges = "OwnChanges"
)

const (
	maxLoopFields    = 10 // in a report
	maxLoopVersions  = 32 // of the writes of one handler
	reportedByEngine = "" // the writer of conditions that report handlers
)

// handlerLoops contains the changes by which the handlers of an object cause their own calls.
type handlerLoops struct {
	writes     []handlerWrite  // the writes that no cycle has handled yet
	cycles     loopguard.Guard // counts updates that handlers have caused
	reconciles loopguard.Guard // counts calls of reconcile handlers that handlers have caused
	changes    []string        // the handlers with the fields that have caused these calls, sorted
	reported   bool
}

// handlerWrite contains the fields that a handler has written.
type handlerWrite struct {
	loopguard.Write
	paths    []string // the written fields, also those outside of the essence
	versions []string // the resource versions of the writes
}

// with returns the union of two writes of a handler.
func (w handlerWrite) with(later handlerWrite) handlerWrite {
	w.Fields = patch.Merge(w.Fields, later.Fields)
	w.paths = mergeSorted(w.paths, later.paths)
	w.versions = append(slices.Clone(w.versions), later.versions...)
	w.versions = w.versions[max(0, len(w.versions)-maxLoopVersions):]
	return w
}

// mergeSorted returns the union of two lists, sorted and limited.
func mergeSorted(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxLoopFields)]
}

// handlerWrite returns the write of a handler: doc has changed the content base, and stored is the content after the write.
func (e *Engine) handlerWrite(base, stored map[string]any, doc patch.MergePatch, version string) handlerWrite {
	before := e.detector.Essence.Build(doc.CurrentValues(base).Apply(stored))
	after := e.detector.Essence.Build(stored)
	return handlerWrite{
		Write: loopguard.Write{Fields: runtime.DeepCopyJSON(patch.Diff(before, after))},
		paths: mergeSorted(nil, doc.Paths()), versions: []string{version},
	}
}

// noteWrite records a write of a handler. Writes outside of the essence matter only for reconcile handlers.
func (e *Engine) noteWrite(r *reconciliation, id string, one handlerWrite) {
	if len(one.versions) == 0 || e.LoopLimit < 1 || len(one.Fields) == 0 && len(e.ReconcileHandlers.IDs()) == 0 {
		return
	}
	if r.known.Worker.Loops == nil {
		r.known.Worker.Loops = &handlerLoops{}
	}
	loops := r.known.Worker.Loops
	for i, known := range loops.writes {
		if known.Handler == id {
			loops.writes[i] = known.with(one)
			return
		}
	}
	one.Handler = id
	loops.writes = append(loops.writes, one)
}

// noteOwnChanges records the changes of handlers that the engine has written. It is called only for kinds for which these changes can be updates. base and
// stored are the contents before and after the write.
func (e *Engine) noteOwnChanges(r *reconciliation, base, stored map[string]any, version string, patches ...*commit.HandlerPatch) {
	for _, p := range patches {
		one := e.handlerWrite(base, stored, p.Patch, version)
		base = p.Patch.Apply(base)
		if len(one.Fields) == 0 {
			continue
		}
		id := p.ID
		if p.Report {
			id = reportedByEngine
		}
		e.noteWrite(r, id, one)
	}
}

// guardLoops delays the next update of an object whose handlers cause their own updates. The reconcile then continues as without a change. guardLoops returns
// the resource version up to which the reconcile handles the changes of handlers; empty if it handles none. The caller must call releaseLoops with it.
func (e *Engine) guardLoops(ctx context.Context, r *reconciliation) (handled string) {
	loops := r.known.Worker.Loops
	if loops == nil {
		return ""
	}
	loops.expire(ctx, now())
	handles := !r.Cause.Reason.HasHandlers()
	if !e.startsUpdate(r) {
		loops.cycles = loops.cycles.Skip(now())
	} else {
		fields, own := loopguard.Attribute(r.Cause.Diff, loops.attributable())
		var wait time.Duration
		loops.cycles, wait = loops.cycles.Start(now(), own, e.LoopLimit)
		if own {
			loops.note(describe(fields)...)
		}
		if handles = wait == 0; !handles {
			log.FromContext(ctx).V(1).Info("The update is delayed, because handlers have caused it", "delay", wait.String())
			r.Cause.Reason = cause.Noop
		}
		e.reportLoop(ctx, r.Base(), loops)
	}
	if !handles {
		return ""
	}
	return r.Base().GetResourceVersion()
}

// startsUpdate reports whether this reconcile begins to handle an update.
func (e *Engine) startsUpdate(r *reconciliation) bool {
	return r.Cause.Reason == cause.Update && !r.Records.HasRecords(string(cause.Update)) && !r.Cause.Reversed && !r.Cause.WasEdited()
}

// holdsReconcileHandlers reports whether the reconcile handlers must wait, because only handlers have changed the object. versions are the resource versions
// of the changes since the last call that the engine has not written itself.
func (e *Engine) holdsReconcileHandlers(r *reconciliation, versions []string) bool {
	loops := r.known.Worker.Loops
	if loops == nil || len(versions) == 0 && loops.reconciles.Held().IsZero() {
		return false
	}
	own := true
	var writers []handlerWrite
	for _, version := range versions {
		i := slices.IndexFunc(loops.writes, func(one handlerWrite) bool { return slices.Contains(one.versions, version) })
		if i < 0 {
			own = false
			break
		}
		writers = append(writers, loops.writes[i])
	}
	var wait time.Duration
	loops.reconciles, wait = loops.reconciles.Start(now(), own, e.LoopLimit)
	if own {
		for _, one := range writers {
			for _, path := range one.paths {
				loops.note(describeOne(one.Handler, path))
			}
		}
	}
	return wait > 0
}

// releaseLoops must be called after the handlers of a reconcile with the result of guardLoops. It drops the handled changes, reports a loop, and returns the
// time until the next reconcile; 0 if none is necessary.
func (e *Engine) releaseLoops(ctx context.Context, r *reconciliation, handled string) (next time.Duration) {
	loops := r.known.Worker.Loops
	if loops == nil {
		return 0
	}
	if handled != "" && loops.reconciles.Held().IsZero() {
		loops.writes = slices.DeleteFunc(loops.writes, func(one handlerWrite) bool {
			return !objectstate.IsOlderVersion(handled, one.versions[len(one.versions)-1])
		})
	}
	e.reportLoop(ctx, r.Base(), loops)
	at := now()
	loops.expire(ctx, at) // a waiting cycle may have been skipped
	for _, guard := range [...]loopguard.Guard{loops.cycles, loops.reconciles} {
		if _, left := guard.Expire(at); left > 0 && (next == 0 || left < next) {
			next = left
		}
	}
	if loops.cycles.Empty() && loops.reconciles.Empty() {
		if loops.changes = nil; len(loops.writes) == 0 {
			r.known.Worker.Loops = nil
		}
	}
	e.loopingObjects.Note(metrics.LoopingObjects, e.Name, client.ObjectKeyFromObject(r.Base()), loops.isLooping())
	return next
}

// expire forgets counted calls that are too old, and logs the end of a loop.
func (l *handlerLoops) expire(ctx context.Context, at time.Time) {
	was := l.isLooping()
	l.cycles, _ = l.cycles.Expire(at)
	l.reconciles, _ = l.reconciles.Expire(at)
	if was && !l.isLooping() {
		log.FromContext(ctx).Info("The handlers of the object no longer cause their own calls", "changes", l.changes)
		l.reported, l.changes = false, nil
	}
}

func (l *handlerLoops) isLooping() bool {
	return l != nil && (l.cycles.Looping() || l.reconciles.Looping())
}

// held returns the time at which the next delayed call starts; zero if none is delayed.
func (l *handlerLoops) held() (first time.Time) {
	if l == nil {
		return time.Time{}
	}
	for _, at := range [...]time.Time{l.cycles.Held(), l.reconciles.Held()} {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// note records changes that have caused a call.
func (l *handlerLoops) note(changes ...string) {
	if l.cycles.Count()+l.reconciles.Count() <= 1 && !l.isLooping() {
		l.changes = nil // these changes belong to an earlier chain
	}
	l.changes = mergeSorted(l.changes, changes)
}

// attributable returns the writes in the form of package loopguard.
func (l *handlerLoops) attributable() []loopguard.Write {
	writes := make([]loopguard.Write, len(l.writes))
	for i, one := range l.writes {
		writes[i] = one.Write
	}
	return writes
}

// message explains the loop.
func (l *handlerLoops) message() string {
	return "The handlers of the object cause their own calls, which are delayed: " + strings.Join(l.changes, ", ")
}

// describe returns the changed fields with their handlers for a report.
func describe(fields []loopguard.Change) (all []string) {
	for _, field := range fields {
		for _, id := range field.Handlers {
			all = append(all, describeOne(id, fieldName(field.Field)))
		}
	}
	return all
}

func describeOne(id, field string) string {
	if id == reportedByEngine {
		return "a reported condition changes " + field
	}
	return fmt.Sprintf("%q changes %s", id, field)
}

// fieldName returns the name of a field of the essence for users.
func fieldName(path diff.Path) string {
	if len(path) > 1 && path[0] == essence.ConditionsKey {
		return "status.conditions." + path[1]
	}
	return path.String()
}

// reportLoop logs a loop and posts an Event about it, once for each loop.
func (e *Engine) reportLoop(ctx context.Context, obj client.Object, loops *handlerLoops) {
	if loops.reported || !loops.isLooping() {
		return
	}
	loops.reported = true
	log.FromContext(ctx).Info("The handlers of the object cause their own calls; the next calls are delayed until this stops. "+
		"A handler must write another value only if something else has changed, or react to other fields only", "changes", loops.changes)
	e.events.Warn(obj, handlerLoop, loops.message())
}

// IsLooping reports whether the handlers of the object of a key cause their own calls.
func (e *Engine) IsLooping(key types.NamespacedName) bool {
	return !e.loopingObjects.Since(key).IsZero()
}

// setHandlerLoop sets or removes the condition that reports a loop, for kinds that declare conditions.
func (e *Engine) setHandlerLoop(r *reconciliation, set *conditions.Set) {
	switch {
	case len(e.DeclaredConditions) == 0:
	case r.known.Worker.Loops.isLooping():
		set.True(handlerLoop, reasonOwnChanges, r.known.Worker.Loops.message())
	default:
		set.Remove(handlerLoop)
	}
}
