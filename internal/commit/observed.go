package commit

import (
	"context"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// maxObserved limits the places and the types of conditions that are remembered for a kind, because keys of maps are unlimited.
const maxObserved = 1000

// Observed are the places where the operator writes the observed generation of objects of a kind: fields, items of lists, and conditions. When a write of
// ours alone raises the generation, the status in these places still describes the object.
//
// It is safe for concurrent use. The zero value is ready.
type Observed struct {
	mu     sync.RWMutex
	types  []string
	places []patch.Observation
	known  map[string]bool
}

// AddCondition adds the type of a condition that the operator sets.
func (o *Observed) AddCondition(conditionType string) {
	o.add("condition "+conditionType, func() { o.types = append(o.types, conditionType) })
}

// AddPlaces adds the places that a handler has set.
func (o *Observed) AddPlaces(places []patch.Observation) {
	for _, place := range places {
		if !place.IsPermanent() {
			continue
		}
		place = place.WithoutValues()
		name, value := place.Key()
		o.add(strings.Join(append(slices.Clip(place.Path), name, value), "\x00"), func() { o.places = append(o.places, place) })
	}
}

func (o *Observed) add(key string, add func()) {
	o.mu.RLock()
	known := o.known[key]
	o.mu.RUnlock()
	if known {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known[key] || len(o.known) >= maxObserved {
		return
	}
	if o.known == nil {
		o.known = map[string]bool{}
	}
	o.known[key] = true
	add()
}

// ConditionTypes returns the types of the conditions that the operator has set.
func (o *Observed) ConditionTypes() []string {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clip(o.types)
}

// Places returns the places that handlers have set.
func (o *Observed) Places() []patch.Observation {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.Clip(o.places)
}

// IsEmpty reports whether the operator sets no observed generation.
func (o *Observed) IsEmpty() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return len(o.known) == 0
}

// noteObservations remembers the places where a written patch has set an observed generation.
func (s *Session) noteObservations(doc patch.MergePatch, base map[string]any) {
	if places := doc.Observations(base); len(places) > 0 {
		s.observations = append(s.observations, places...)
		s.Observed.AddPlaces(places)
	}
}

// ObservedPlaces returns the places in the pending and the written changes of this reconcile where handlers have set an observed generation, and the places
// that are known for the kind.
func (s *Session) ObservedPlaces() []patch.Observation {
	places := slices.Concat(s.Observed.Places(), s.observations)
	for _, p := range s.patches {
		places = append(places, p.Patch.Observations(s.Content())...)
	}
	return places
}

// NoteRaise records that a write of ours alone has raised the generation of the object.
func (s *Session) NoteRaise(raised patch.Generations) {
	if !raised.IsEmpty() {
		s.raised = s.raised.Extend(raised)
	}
}

// Raised returns the generations that only our own writes have ended, if the object still has the generation that followed.
func (s *Session) Raised() patch.Generations {
	if s.raised.To != s.Base().GetGeneration() {
		return patch.Generations{}
	}
	return s.raised
}

// noteRaiseBy records whether a change has raised the generation.
func (s *Session) noteRaiseBy(change *patch.Change) {
	if change.RaisedTo != 0 {
		s.NoteRaise(patch.Generations{From: change.SeenGeneration, To: change.RaisedTo})
	}
}

// specFirst returns the transaction that must be written first. This is the given one, unless handlers change the spec, and the status says which generation the
// operator has observed. Then it is only the part outside of the status, and specFirst sets s.spec. The next transaction writes the status with the new
// generation, and the records after it.
//
// The part outside of the status also amends the baseline, and pins the object. After a crash, the handlers are called again, and their changes are not an
// update.
func (s *Session) specFirst(ctx context.Context, tx Transaction) (Transaction, error) {
	s.spec = nil
	seen := s.Base().GetGeneration()
	if !s.HasStatus || s.Gone || seen == 0 || s.Cause.OldDigest != "" || tx.Change.RemoveFinalizer != "" || !tx.Change.HandlerPatch.ChangesSpec() ||
		!s.host.Observes(ctx, patch.Generations{From: seen, To: seen + 1}) {
		return tx, nil
	}
	first, err := s.BuildSpecFirst(s.input(), tx.Change)
	if err != nil {
		return tx, err
	}
	if s.Memory.Overlay != nil { // the API server may reject this part again
		first.Change.FrameworkPatch, first.NewBaseline = nil, nil
	}
	first.Change.SeenGeneration = seen
	s.spec = first.Change
	return first, nil
}

// acceptSpec continues the session after the first part of its changes was written. The status is still pending.
func (s *Session) acceptSpec(ctx context.Context, written client.Object) error {
	change := s.change
	accepted := AcceptedWrite{Changes: change.HandlerPatch, Version: s.Base().GetResourceVersion()}
	for _, p := range s.patches {
		rest := p.Patch.WithoutField("status")
		s.ReportDropped(ctx, change, p.ID, rest)
		accepted.Patches = append(accepted.Patches, &HandlerPatch{ID: p.ID, Report: p.Report, Patch: rest})
		p.written, p.Patch = patch.Merge(p.written, rest), p.Patch.StatusPart()
	}
	s.dropEmptyPatches()
	s.Memory.Pending, s.change, s.edited, s.revert = nil, nil, true, s.revert.StatusPart()
	before := s.Content()
	if written != nil {
		var err error
		if accepted.Stored, err = change.ContentOf(written); err != nil {
			return err
		}
		accepted.Version = written.GetResourceVersion()
	}
	s.host.AfterPart(before, accepted)
	after := s.Detector.CauseAfterWrite(s.Cause, before, s.handled, change.HandlerPatch)
	after.OutdatedBaseline = true // the next write completes it
	s.noteBaseline(s.baseline)
	s.baseline = nil
	if written == nil {
		s.rebase(after)
		return nil
	}
	if err := s.advance(patch.Converted{Object: written, Content: accepted.Stored}); err != nil {
		return err
	}
	after, _ = s.causeOfStored(ctx, after, change)
	s.rebase(after)
	s.noteRaiseBy(change)
	return nil
}
