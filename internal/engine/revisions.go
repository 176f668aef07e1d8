package engine

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// revisions are the revisions that the handlers declare.
type revisions struct {
	key      *revision.Key  // of the notes on the objects; nil if the objects contain no progress
	declared map[string]int // by handler id
	// tracksSchema is true if a rollout also limits updates that a change of the schema has caused.
	tracksSchema bool
}

// A Rollout limits how many objects at a time are handled for newer revisions. Its methods must be safe for concurrent use.
type Rollout interface {
	// Observe is called whenever an object is reconciled. It returns why the object must wait, or no hold if it may be handled for the
	// revisions now.
	Observe(e *Engine, key types.NamespacedName, s revision.Standing) Hold
	// Check returns what Observe has returned last, without side effects.
	Check(e *Engine, key types.NamespacedName) Hold
	// Note is like Observe, but for an object of the first list, before any of them is reconciled or while they are. Known is called after
	// the last one, and Left when the engine is closed.
	Note(e *Engine, key types.NamespacedName, s revision.Standing)
	Known(e *Engine)
	Left(e *Engine)
	// Forget is called for an object that no longer exists, or that the operator no longer handles.
	Forget(e *Engine, key types.NamespacedName)
}

// Revisions returns the revisions that the kind's handlers declare, by id.
func (e *Kind) Revisions() map[string]int {
	declared := map[string]int{}
	for id, handler := range e.Handlers.All() {
		if handler.Revision > 0 {
			declared[id] = handler.Revision
		}
	}
	return declared
}

// RollsOut reports whether a rollout can limit anything that happens to the kind's objects.
func (e *Kind) RollsOut() bool {
	return len(e.Revisions()) > 0 || isDefinedByCRD(e.GVK.Group) && e.comparesStates()
}

// rollsOut reports whether a rollout limits what happens to the kind's objects.
func (e *Engine) rollsOut() bool {
	return e.Rollout != nil && (len(e.revisions.declared) > 0 || e.revisions.tracksSchema)
}

// isDefinedByCRD reports whether a kind is probably defined by a CustomResourceDefinition. The generations of other kinds may change with
// their status, or not at all.
func isDefinedByCRD(group string) bool {
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}

// isBySchema reports whether the cause is an update that no user has made: the object's generation is still the one after the last cycle,
// so the API server has added or removed a default. In doubt, a user has made the update.
func (r *reconciliation) isBySchema() bool {
	c := &r.session.Cause
	if !r.engine.revisions.tracksSchema || c.Reason != cause.Update || c.Requested || c.Reversed || c.WasReversed || c.WasEdited() || len(c.Diff) == 0 ||
		r.session.Records.HasRecords(string(cause.Update)) {
		return false
	}
	note := r.engine.noteOf(r.draft.Base())
	return note.Generation > 0 && note.Generation == r.draft.Base().GetGeneration() && !slices.ContainsFunc(c.Diff, func(item diff.Item) bool {
		return len(item.Path) == 0 || slices.Contains([]string{"metadata", "status", essence.ConditionsKey}, item.Path[0])
	})
}

// StoresNotes reports whether the objects have room for notes about revisions: their progress is stored in annotations.
func StoresNotes(settings Settings, kind Kind) bool {
	if settings.Store == nil || settings.Baseline == nil { // that is an error of its own
		return true
	}
	settings.completeStores(&kind)
	return settings.revisionKey(&kind) != nil
}

// findRevisions finds the handlers with newer revisions than the object was handled with. If nothing else has happened to the object, they
// become the cause.
func (e *Engine) findRevisions(r *reconciliation) {
	if len(e.revisions.declared) == 0 {
		return
	}
	note := e.noteOf(r.draft.Base())
	if r.due = note.Due(e.revisions.declared, r.matching.handlers); len(r.due) == 0 {
		return
	}
	if r.details.NoteDropped || !r.mayAnswer() || r.session.Cause.Deleting {
		r.due = nil
		return
	}
	for _, id := range r.due {
		if record := r.session.Records.Record(id); record.Purpose == string(cause.Revision) && !record.Finished() {
			r.session.Records.Keep(id)
		}
	}
	isResumed := r.session.Cause.Reason == cause.Resume && !slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := e.Handlers.Get(id)
		return handler.Resumes()
	})
	if r.session.Cause.Reason == cause.Noop && !r.session.Cause.Requested || isResumed {
		r.session.Cause = r.session.Cause.Request(cause.Revision)
	}
}

// noteOf returns the note about revisions on an object.
func (e *Engine) noteOf(obj client.Object) revision.Note {
	return e.revisions.key.Read(obj, func() string { return essence.BaselineDigest(e.Baseline.Fetch(obj)) })
}

// supersedeRevision makes handlers start afresh that were only called for their revisions so far, so that what has happened to the object
// waits for none of their delays.
func (r *reconciliation) supersedeRevision() {
	if r.session.Cause.Reason == cause.Revision {
		return
	}
	for _, id := range r.matching.selection.Selected {
		if r.session.Records.Record(id).Purpose == string(cause.Revision) {
			r.session.Records.StartAfresh(id)
		}
	}
}

// noteRevisions notes with which revisions the object was handled, in the annotations of the next write.
func (r *reconciliation) noteRevisions(all map[string]string) {
	e := r.engine
	base := r.draft.Base()
	if e.revisions.key == nil || !r.mayAnswer() || r.session.Cause.Deleting {
		return
	}
	baseline := func() string { return essence.BaselineDigest(e.Baseline.Fetch(base)) }
	e.revisions.key.Change(all, base.GetUID(), baseline, func(n *revision.Note) {
		n.Retain(e.revisions.declared)
		if !e.rollsOut() {
			n.Generation, n.Schema, n.Entered = 0, nil, nil
		}
		if !r.session.Cause.Reason.HasHandlers() {
			return
		}
		r.noteSchema(n)
		outcome := revision.Outcome{Ended: now(), Cause: string(r.session.Cause.Reason)}
		if r.session.Cause.Reason != cause.Revision && r.session.Cause.Requested {
			outcome.Cause = "request"
		}
		for id, declared := range e.revisions.declared {
			if isCreated := r.session.Cause.Reason == cause.Create && r.session.IsFinished(); !isCreated && !r.hasFinished(id) {
				continue
			}
			outcome.Revision, outcome.Failed = declared, r.hasFinished(id) && r.session.Records.Record(id).Failure
			n.Set(id, outcome)
		}
		if r.session.Cause.Reason == cause.Revision {
			r.omitFinished()
		}
		if isOver := r.session.Cause.Reason == cause.Revision || r.session.IsFinished(); isOver && len(n.Due(e.revisions.declared, r.matching.handlers)) == 0 {
			n.Entered = nil
		}
	})
}

// noteSchema notes the object's generation, and how the handlers of a change of the schema have ended.
func (r *reconciliation) noteSchema(n *revision.Note) {
	c := &r.session.Cause
	if !r.engine.revisions.tracksSchema || !r.session.IsFinished() {
		return
	}
	if c.Reason == cause.Update && n.HandlesSchema() {
		n.Schema = &revision.Outcome{Ended: now().UTC().Truncate(time.Second), Failed: r.session.Records.Summary().Failed > 0}
	}
	isWhole := !c.WasEdited() && !c.Reversed && !slices.ContainsFunc(r.draft.Patches(), func(p *commit.HandlerPatch) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(p.Patch)), func(field string) bool { return field != "metadata" && field != "status" })
	})
	if n.Generation = 0; isWhole {
		n.Generation = r.draft.Base().GetGeneration()
	}
}

// hasFinished reports whether a handler of the cause has finished.
func (r *reconciliation) hasFinished(id string) bool {
	return slices.Contains(r.matching.selection.Selected, id) && r.session.Records.HasFinished(id)
}

// omitFinished leaves the records of finished handlers out, because the note has their outcomes. Otherwise an operator that doesn't know
// revisions would take a success for one of its own cause, and skip the handler. Records that another handler waits for must stay.
func (r *reconciliation) omitFinished() {
	for _, id := range r.matching.selection.Selected {
		isAwaited := slices.ContainsFunc(r.matching.selection.Selected, func(other string) bool {
			handler, _ := r.engine.Handlers.Get(other)
			return slices.Contains(handler.After, id) && !r.session.Records.HasFinished(other)
		})
		if r.session.Records.HasFinished(id) && !isAwaited {
			r.session.Records.Omit(id)
		}
	}
}

// hasDueRevision reports whether the object must be reconciled again for a revision, now that the cycle is over.
func (r *reconciliation) hasDueRevision() bool {
	if len(r.engine.revisions.declared) == 0 || r.details.NoteDropped || !r.session.IsFinished() || r.session.Cause.Reason == cause.Delete || !r.mayAnswer() {
		return false
	}
	note := r.engine.noteOf(r.draft.Base())
	return len(note.Due(r.engine.revisions.declared, r.matching.handlers)) > 0
}

// checkNote is called after a cycle. If another client has removed the note that was just written, the handlers would be called again and
// again.
func (r *reconciliation) checkNote(ctx context.Context) {
	e := r.engine
	if len(e.revisions.declared) == 0 || r.session.Cause.Reason != cause.Revision || r.details.NoteDropped {
		return
	}
	note := e.noteOf(r.draft.Base())
	if due := note.Due(e.revisions.declared, r.matching.selection.Selected); len(due) > 0 {
		r.details.NoteDropped = true
		log.FromContext(ctx).Info("The API server has dropped the annotation with the revisions of the handlers; they are not called for their revisions again before a restart: "+
			"look for an admission webhook that removes annotations", "annotation", e.revisions.key.String(), "handlers", due)
	}
}

// enterRollout asks the rollout whether the object may be handled for newer revisions. The write that says so on the object comes before
// the first call, so that the rollout's limit also holds after a restart.
func (e *Engine) enterRollout(ctx context.Context, r *reconciliation) (Hold, error) {
	if !e.rollsOut() {
		return Hold{}, nil
	}
	r.bySchema = len(r.matching.selection.Selected) > 0 && r.isBySchema()
	standing := e.standing(r)
	hold := e.Rollout.Observe(e, client.ObjectKeyFromObject(r.draft.Base()), standing)
	if r.session.Cause.Reason != cause.Revision && !r.bySchema || r.held.isActive() {
		return Hold{}, nil
	}
	if hold.isActive() || !standing.Entered.IsZero() {
		return hold, nil
	}
	defer r.noteResult()
	err := r.session.Send(ctx, e.entry(r))
	return holdFor(HeldByRollout, e.ConsistencyTimeout), err
}

// entry returns the change that notes on an object that a rollout has taken it up.
func (e *Engine) entry(r *reconciliation) *patch.Change {
	obj, at := r.draft.Base(), now().UTC().Truncate(time.Second)
	all := maps.Clone(obj.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	e.revisions.key.Change(all, obj.GetUID(), func() string { return essence.BaselineDigest(e.Baseline.Fetch(obj)) }, func(n *revision.Note) {
		if n.Entered = &at; r.bySchema {
			n.Schema = &revision.Outcome{}
		}
	})
	return &patch.Change{Before: obj, Content: r.draft.Content(), FrameworkPatch: patch.DiffAnnotations(obj.GetAnnotations(), all)}
}

// endRollout reports to the rollout that a cycle is over, because the event of its last write may be skipped.
func (e *Engine) endRollout(r *reconciliation) {
	if !e.rollsOut() || !r.session.IsFinished() || r.session.Cause.Deleting {
		return
	}
	note := e.noteOf(r.draft.Base())
	r.due, r.bySchema = note.Due(e.revisions.declared, r.due), false
	e.Rollout.Observe(e, client.ObjectKeyFromObject(r.draft.Base()), e.standing(r))
}

func (e *Engine) checkRollout(s subject) Hold {
	if !e.rollsOut() {
		return Hold{}
	}
	r := e.evaluate(s)
	if r == nil || r.session.Cause.Reason != cause.Revision && !(len(r.matching.selection.Selected) > 0 && r.isBySchema()) {
		return Hold{}
	}
	return e.Rollout.Check(e, s.key)
}

// standing returns where an object stands in a rollout.
func (e *Engine) standing(r *reconciliation) (s revision.Standing) {
	obj := r.draft.Base()
	note := e.noteOf(obj)
	isUpdating := r.session.Cause.Reason == cause.Update && !r.session.Cause.Requested && !r.session.IsFinished()
	s.BySchema = r.bySchema || isUpdating && note.Entered != nil && note.HandlesSchema()
	s.UID, s.Due, s.Annotations = obj.GetUID(), len(r.due) > 0 || s.BySchema, obj.GetAnnotations()
	s.Busy = s.Due && r.session.Cause.Reason != cause.Revision && !s.BySchema && r.session.Cause.Reason.HasHandlers()
	if s.Due && note.Entered != nil {
		s.Entered = *note.Entered
	}
	s.Ended, s.Failed = note.RolledOut(e.revisions.declared)
	return s
}

// leaveRollout forgets a key's object, which no longer exists or is no longer handled.
func (e *Engine) leaveRollout(key types.NamespacedName) {
	if e.rollsOut() {
		e.Rollout.Forget(e, key)
	}
}

// BeginRollout reports all objects to the rollout. It is called after the first list, because the rollout must know them before it chooses
// the first ones.
func (e *Engine) BeginRollout() {
	if !e.rollsOut() {
		return
	}
	for _, obj := range e.states.List() {
		key := client.ObjectKeyFromObject(obj)
		known := e.tryCopyState(obj.GetUID())
		if known == nil {
			continue // a worker reconciles it
		}
		if err := guard.Catch("", func() error {
			if r := e.evaluate(subject{key, obj, known}); r != nil {
				r.bySchema = len(r.matching.selection.Selected) > 0 && r.isBySchema()
				e.Rollout.Note(e, key, e.standing(r))
			}
			return nil
		}); err != nil {
			e.logOf(obj).V(1).Info("The rollout doesn't know the object before its first reconcile", "error", err.Error())
		}
	}
	e.Rollout.Known(e)
}

// DeclaredRevisions returns the revisions that the kind's handlers declare, by id.
func (e *Engine) DeclaredRevisions() map[string]int { return e.revisions.declared }

// EnqueueKey enqueues a key for a rollout.
func (e *Engine) EnqueueKey(key types.NamespacedName) { e.states.Enqueue(triggered, key) }
