package engine

import (
	"context"
	"errors"
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
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// revisions are the revisions that the handlers declare.
type revisions struct {
	key      *revision.Key  // of the notes on the objects; nil if the objects contain no progress
	declared map[string]int // by handler id
	text     string         // of the declared revisions
	// tracksSchema is true if a rollout also limits updates that a change of the schema has caused.
	tracksSchema bool
}

// schemaTarget is the target of an object that a rollout handles for a change of the schema.
const schemaTarget = "schema"

// optOut is the annotation with which users keep objects out of rollouts. Setting it is no change of an object, because the handlers of an
// update would then be called.
type optOut string

// Clear removes the annotation from an essence.
func (o optOut) Clear(content map[string]any) {
	if o != "" {
		meta, _ := content["metadata"].(map[string]any)
		all, _ := meta["annotations"].(map[string]any)
		delete(all, string(o))
	}
}

// ClearStored removes nothing, because the annotation is the users'.
func (optOut) ClearStored(map[string]any) {}

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
	selection := r.matching.selection
	if !r.engine.revisions.tracksSchema || r.details.NoteDropped || len(selection.Selected) == len(selection.Resuming) || c.Reason != cause.Update || c.Requested || c.Reversed || c.WasReversed || c.WasEdited() || len(c.Diff) == 0 ||
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
	return settings.revisionKey(&kind) != nil && progress.UsesOnlyAnnotations(settings.Store, kind.New())
}

// findRevisions finds the handlers with newer revisions than the object was handled with. If nothing else has happened to the object, they
// become the cause.
func (e *Engine) findRevisions(r *reconciliation) {
	if len(e.revisions.declared) == 0 {
		return
	}
	note := e.noteOf(r.draft.Base())
	r.due, r.endedBefore = note.Due(e.revisions.declared, r.matching.handlers), nil
	for id := range e.revisions.declared {
		if r.session.Records.Record(id).Finished() {
			r.endedBefore = append(r.endedBefore, id)
		}
	}
	if len(r.due) == 0 {
		return
	}
	if r.details.NoteDropped || !r.mayAnswer() || r.session.Cause.Deleting {
		r.due = nil
		return
	}
	for _, id := range r.due {
		switch record := r.session.Records.Record(id); {
		case record.Purpose != string(cause.Revision):
		case record.Finished(), note.Pending[id] != e.revisions.declared[id]:
			r.session.Records.StartAfresh(id) // it is the record of another revision
		default:
			r.session.Records.Keep(id)
		}
	}
	if r.hasNoCause() {
		r.session.Cause = r.session.Cause.Request(cause.Revision)
	}
}

// hasNoCause reports whether nothing has happened to the object, not even a start of the process that a matching handler handles.
func (r *reconciliation) hasNoCause() bool {
	if r.session.Cause.Reason != cause.Resume {
		return r.session.Cause.Reason == cause.Noop
	}
	return !r.session.Cause.Requested && !slices.ContainsFunc(r.matching.handlers, func(id string) bool {
		handler, _ := r.engine.Handlers.Get(id)
		return handler.Resumes()
	})
}

// selectRevised selects the handlers with newer revisions, and those before them that this cycle has called already.
func (r *reconciliation) selectRevised() {
	for _, id := range r.matching.handlers {
		record := r.session.Records.Record(id)
		if slices.Contains(r.due, id) || record.Finished() && record.Purpose == string(cause.Revision) {
			r.matching.selection.Selected = append(r.matching.selection.Selected, id)
		}
	}
}

// noteOf returns the note about revisions on an object.
func (e *Engine) noteOf(obj client.Object) revision.Note {
	n := e.revisions.key.Read(obj, func() string { return essence.BaselineDigest(e.Baseline.Fetch(obj)) })
	e.renameIn(&n)
	return n
}

// renameIn gives renamed handlers what a note says about their earlier ids.
func (e *Engine) renameIn(n *revision.Note) {
	for id := range e.revisions.declared {
		handler, _ := e.Handlers.Get(id)
		for _, earlier := range handler.EarlierIDs {
			n.Rename(earlier, id)
		}
	}
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
		e.renameIn(n)
		n.Retain(e.revisions.declared)
		if !e.rollsOut() {
			n.Generation, n.Schema, n.Entered, n.Target = 0, nil, nil, ""
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
			isCreated := r.session.Cause.Reason == cause.Create && r.session.IsFinished() && !slices.Contains(r.matching.selection.Selected, id)
			if isCreated || r.hasFinished(id) {
				outcome.Revision, outcome.Failed = declared, !isCreated && r.session.Records.Record(id).Failure
				n.Set(id, outcome)
			}
		}
		isRevision := r.session.Cause.Reason == cause.Revision
		if isRevision {
			r.omitFinished()
		}
		due := n.Due(e.revisions.declared, r.matching.handlers)
		if isRevision {
			n.SetPending(e.revisions.declared, due)
		}
		maps.DeleteFunc(n.Pending, func(id string, _ int) bool { return !slices.Contains(due, id) })
		if isOver := isRevision || r.session.IsFinished(); isOver && (len(due) == 0 || !isRevision && n.Target == schemaTarget) {
			n.Entered, n.Target = nil, ""
		}
	})
}

// noteSchema notes the object's generation, and how the handlers of a change of the schema have ended.
func (r *reconciliation) noteSchema(n *revision.Note) {
	c := &r.session.Cause
	if !r.engine.revisions.tracksSchema || !r.session.IsFinished() {
		return
	}
	if c.Reason == cause.Update && n.Target == schemaTarget {
		n.Schema = &revision.Outcome{Ended: now().UTC().Truncate(time.Second), Failed: r.session.Records.Summary().Failed > 0}
	}
	isWhole := !c.WasEdited() && !c.Reversed && !slices.ContainsFunc(r.draft.Patches(), func(p *commit.HandlerPatch) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(p.Patch)), func(field string) bool { return field != "metadata" && field != "status" })
	})
	switch {
	case isWhole:
		n.Generation = r.draft.Base().GetGeneration()
	case c.Reason != cause.Resume: // which leaves held changes for later
		n.Generation = 0
	}
}

// hasFinished reports whether a handler of the cause has finished in this reconcile. Another version of the operator may have called those
// that had finished before.
func (r *reconciliation) hasFinished(id string) bool {
	return slices.Contains(r.matching.selection.Selected, id) && r.session.Records.HasFinished(id) &&
		(slices.Contains(r.calls.called, id) || !slices.Contains(r.endedBefore, id))
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
	r.bySchema = r.isBySchema()
	standing := e.standing(r)
	hold := e.Rollout.Observe(e, client.ObjectKeyFromObject(r.draft.Base()), standing)
	if r.session.Cause.Reason != cause.Revision && !r.bySchema || r.held.isActive() {
		return Hold{}, nil
	}
	if hold.isActive() && r.bySchema && len(r.matching.selection.Resuming) > 0 {
		r.resumeUnchanged()
		return Hold{}, nil
	}
	if hold.isActive() || !standing.Entered.IsZero() {
		return hold, nil
	}
	return e.writeEntry(ctx, r)
}

// resumeUnchanged lets the resume handlers of an object be called as if it hadn't changed, because the change is held.
func (r *reconciliation) resumeUnchanged() {
	r.session.Cause = r.session.Cause.AsUnchanged(cause.Resume)
	r.matching.selection.Selected, r.bySchema = slices.Clone(r.matching.selection.Resuming), false
	r.matching.view = r.causeView()
}

// writeEntry notes on an object that a rollout has taken it up. If the API server doesn't store the note, the object isn't handled for the
// rollout in this process, because it would take up a place for ever.
func (e *Engine) writeEntry(ctx context.Context, r *reconciliation) (Hold, error) {
	obj, at := r.draft.Base(), now().UTC().Truncate(time.Second)
	all := maps.Clone(obj.GetAnnotations())
	if all == nil {
		all = map[string]string{}
	}
	e.revisions.key.Change(all, obj.GetUID(), func() string { return essence.BaselineDigest(e.Baseline.Fetch(obj)) }, func(n *revision.Note) {
		if n.Entered, n.Target = &at, e.revisions.text; r.bySchema {
			n.Target = schemaTarget
		}
	})
	change := &patch.Change{Before: obj, Content: r.draft.Content(), FrameworkPatch: patch.DiffAnnotations(obj.GetAnnotations(), all)}
	defer r.noteResult()
	err := r.session.Send(ctx, change)
	rejected, isRejected := errors.AsType[*patch.RejectedError](err)
	if isRejected || err == nil && !e.hasEntered(obj.GetUID()) {
		text := "an admission webhook or policy removes annotations"
		if isRejected {
			text = rejected.Error()
		}
		r.details.NoteDropped = true
		e.leaveRollout(client.ObjectKeyFromObject(obj))
		log.FromContext(ctx).Info("The API server does not store that the rollout has begun with the object; it is left out before a restart", "annotation", e.revisions.key.String(), "why", text)
		return Hold{Reason: HeldByRollout, Until: now().Add(conflictPause)}, nil
	}
	return holdFor(HeldByRollout, e.ConsistencyTimeout), err
}

// hasEntered reports whether the newest known state of an object says that a rollout has taken it up, or whether there is none.
func (e *Engine) hasEntered(uid types.UID) bool {
	newest := e.states.Newest(uid)
	if newest == nil {
		return true
	}
	note := e.noteOf(newest)
	return note.Entered != nil
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
	if r == nil || r.session.Cause.Reason != cause.Revision && !r.isBySchema() {
		return Hold{}
	}
	return e.Rollout.Check(e, s.key)
}

// standing returns where an object stands in a rollout.
func (e *Engine) standing(r *reconciliation) (s revision.Standing) {
	obj := r.draft.Base()
	note := e.noteOf(obj)
	isUpdating := r.session.Cause.Reason == cause.Update && !r.session.Cause.Requested && !r.session.IsFinished()
	s.BySchema = r.bySchema || isUpdating && note.Entered != nil && note.Target == schemaTarget
	s.UID, s.Due, s.Annotations = obj.GetUID(), len(r.due) > 0 || s.BySchema, obj.GetAnnotations()
	s.Busy = s.Due && r.session.Cause.Reason != cause.Revision && !s.BySchema && r.session.Cause.Reason.HasHandlers()
	target := e.revisions.text
	if s.BySchema {
		target = schemaTarget
	}
	if s.Due && note.Entered != nil && note.Target == target { // otherwise, an earlier rollout has begun with the object
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
				r.bySchema = r.isBySchema()
				e.Rollout.Note(e, key, e.standing(r))
			}
			return nil
		}); err != nil {
			e.logOf(obj).V(1).Info("The rollout doesn't know the object before its first reconcile", "error", err.Error())
		}
	}
	e.Rollout.Known(e)
}

// IsPaused reports whether the operator is paused in a namespace. "" is any namespace.
func (e *Engine) IsPaused(namespace string) bool { return e.paused(namespace) }

// DeclaredRevisions returns the revisions that the kind's handlers declare, by id.
func (e *Engine) DeclaredRevisions() map[string]int { return e.revisions.declared }

// EnqueueKey enqueues a key for a rollout.
func (e *Engine) EnqueueKey(key types.NamespacedName) { e.states.Enqueue(triggered, key) }
