package commit

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// RaiseObserved updates observed generations in the status after our own writes have raised the generation. ended are the generations that
// only our own writes have superseded. Where the status says that one of them was observed, it now names the new one. isReported is true if
// the status needs no change.
func (s *Session) RaiseObserved(ctx context.Context) (ended patch.Generations, isReported bool) {
	if ended = s.Raised(); ended.IsEmpty() || s.ReportRejected || s.Gone || s.Leaving {
		return ended, false
	}
	base := s.Draft.Current().Content
	doc, err := s.raisedStatus(ctx, ended)
	if err == nil {
		err = s.Draft.Apply(doc)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to report the observed generation")
		return ended, false
	}
	s.Draft.Add(&HandlerPatch{Report: true, Base: base, Patch: doc})
	return ended, len(doc) == 0
}

// observes reports whether the status, including pending changes, says that the operator has observed one of these generations.
func (s *Session) observes(ctx context.Context, any patch.Generations) bool {
	doc, err := s.raisedStatus(ctx, any)
	return err == nil && len(doc) > 0
}

// raisedStatus returns the status change that replaces these observed generations with the new one. It leaves out what would itself raise
// the generation: everything if the kind has no status subresource, and conditions outside of the status.
func (s *Session) raisedStatus(ctx context.Context, ended patch.Generations) (patch.MergePatch, error) {
	if !s.builder.HasStatus {
		return nil, nil
	}
	current := s.Draft.Current()
	doc := patch.RaiseObserved(current.Content, s.observedPlaces(), ended)
	types := s.committer.Observed.ConditionTypes()
	if len(types) == 0 {
		return doc, nil
	}
	content, obj := doc.Apply(current.Content), s.committer.Writer.NewObject()
	if err := current.Decode(content, doc, obj); err != nil {
		return nil, err
	}
	obj = obj.DeepCopyObject().(client.Object) // it shares fields with the current one
	s.committer.identify(obj)
	set, err := conditions.For(obj, append(s.committer.ConditionPlaces, conditions.Since(s.Draft.Base()))...)
	if err != nil {
		return doc, nil //nolint:nilerr // the kind has no conditions
	}
	for _, condition := range set.List() {
		if slices.Contains(types, condition.Type) && ended.Contains(condition.ObservedGeneration) {
			condition.ObservedGeneration = ended.To
			set.Set(condition)
		}
	}
	if err := set.Err(); err != nil || !set.Changed() {
		return doc, err
	}
	changed, _, err := s.committer.ChangesOf(ctx, current, "", obj)
	if rest := changed.WithoutField("status"); err != nil || len(rest) > 0 {
		return doc, err
	}
	return s.Draft.Rebased(changed), nil
}

// observedPlaces returns the places where handlers set an observed generation: those known for the kind, and those in this reconcile's
// written and pending changes.
func (s *Session) observedPlaces() []patch.Observation {
	places := slices.Concat(s.committer.Observed.Places(), s.observations)
	for _, p := range s.Draft.patches {
		places = append(places, p.Patch.Observations(s.Draft.Content())...)
	}
	return places
}

// noteObservations remembers where a written patch has set an observed generation.
func (s *Session) noteObservations(doc patch.MergePatch, base map[string]any) {
	if places := doc.Observations(base); len(places) > 0 {
		s.observations = append(s.observations, places...)
		s.committer.Observed.AddPlaces(places)
	}
}

// NoteRaise records generations that only our own writes have superseded.
func (s *Session) NoteRaise(raised patch.Generations) {
	if !raised.IsEmpty() {
		s.raised = s.raised.Extend(raised)
	}
}

// Raised returns the generations that only our own writes have superseded, if the object still has the one that followed.
func (s *Session) Raised() patch.Generations {
	if s.raised.To != s.Draft.Base().GetGeneration() {
		return patch.Generations{}
	}
	return s.raised
}

// noteRaiseBy records the generations that a change has superseded, if any.
func (s *Session) noteRaiseBy(change *patch.Change) {
	if change.RaisedTo != 0 {
		s.NoteRaise(patch.Generations{From: change.SeenGeneration, To: change.RaisedTo})
	}
}
