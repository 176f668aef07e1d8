package commit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Draft is an object with handlers' changes that aren't written yet. It never modifies the objects and JSON forms it receives or returns.
type Draft struct {
	newObject func() client.Object
	committer *Committer // knows the progress that is not stored on the object; nil for a draft without it
	memory    *Memory

	stored   patch.Converted // the object as the API server has it
	base     patch.Converted // stored plus the overlay
	current  patch.Converted // base plus the handlers' changes
	isBehind bool            // base was written while a handler was running, so current is based on an older state
	patches  []*HandlerPatch
}

// NewDraft returns a draft of an object. newObject must return an empty object of the same kind.
func NewDraft(newObject func() client.Object, obj client.Object) (*Draft, error) {
	d := &Draft{newObject: newObject}
	return d, d.SetBase(obj)
}

// Base returns the object without the pending changes.
func (d *Draft) Base() client.Object { return d.base.Object }

// Content returns the JSON form of [Draft.Base].
func (d *Draft) Content() map[string]any { return d.base.Content }

// Current returns the object with the pending changes, as handlers receive it, and its JSON form.
func (d *Draft) Current() patch.Converted { return d.current }

// Stored returns the object as the API server has it, without progress kept elsewhere, and its JSON form.
func (d *Draft) Stored() patch.Converted { return d.stored }

// Patches returns the handlers' pending changes, in order.
func (d *Draft) Patches() []*HandlerPatch { return d.patches }

// HasChanges reports whether any handler's changes are pending.
func (d *Draft) HasChanges() bool { return len(d.patches) > 0 }

// SetBase bases the draft on a state of the object. Handlers called after that don't see the pending changes.
func (d *Draft) SetBase(obj client.Object) error {
	if obj == d.base.Object {
		obj = d.stored.Object // the overlay may have changed
	}
	content, err := d.stored.ContentOf(obj)
	if err != nil {
		return fmt.Errorf("the object has no JSON form: %w", err)
	}
	return d.setStored(patch.Converted{Object: obj, Content: content})
}

// MakeWhole gives an object of a lean cache the text of its baseline. It must be called before the object is written or passed to handlers.
func (d *Draft) MakeWhole() error {
	if d.committer == nil {
		return nil
	}
	whole, content, err := d.committer.Builder.Lean.Whole(d.stored.Object, d.stored.Content)
	switch {
	case err != nil:
		return fmt.Errorf("computing the last-handled configuration: %w", err)
	case whole == d.stored.Object:
		return nil
	case d.HasChanges():
		return d.advance(patch.Converted{Object: whole, Content: content})
	}
	return d.setStored(patch.Converted{Object: whole, Content: content})
}

func (d *Draft) setStored(stored patch.Converted) error {
	d.stored = stored
	if err := d.applyOverlay(); err != nil {
		return err
	}
	d.current, d.isBehind = d.base, false
	return nil
}

// applyOverlay computes base from stored and the overlay.
func (d *Draft) applyOverlay() error {
	d.base = d.stored
	if d.committer == nil {
		return nil
	}
	content, err := d.committer.overlaid(d.memory, d.stored)
	if content == nil || err != nil {
		return err
	}
	obj := d.newObject()
	if err := patch.FromContent(content, obj); err != nil {
		return fmt.Errorf("the progress that is not stored on the object does not fit its type: %w", err)
	}
	d.setKind(obj)
	d.base = patch.Converted{Object: obj, Content: content}
	return nil
}

// ContinueAfterFlush bases the draft on a state that was written while a handler was running. own are the changes relative to the state the
// handler knows, because its copy contains only its own changes.
func (d *Draft) ContinueAfterFlush(own patch.MergePatch, written client.Object) error {
	if err := d.Apply(own); err != nil {
		return err
	}
	d.dropSuperseded(own)
	return d.ContinueFrom(written)
}

// ContinueFrom moves the pending changes to a newer state of the object, which was written while a handler was running.
func (d *Draft) ContinueFrom(written client.Object) error {
	content, err := d.stored.ContentOf(written)
	if err != nil {
		return err
	}
	before := d.base.Content
	d.stored = patch.Converted{Object: written, Content: content}
	if err := d.applyOverlay(); err != nil {
		return err
	}
	for _, p := range d.patches {
		p.Patch = p.Patch.Rebase(before, d.base.Content)
	}
	d.isBehind = true
	return nil
}

// advance moves the pending changes to a newer state of the object. Unlike after [Draft.ContinueFrom], handlers called from now on receive
// this state.
func (d *Draft) advance(stored patch.Converted) error {
	before := d.base.Content
	if err := d.setStored(stored); err != nil {
		return err
	}
	for _, p := range d.patches {
		p.Patch = p.Patch.Rebase(before, d.base.Content)
		if err := d.Apply(p.Patch); err != nil {
			return err
		}
	}
	return nil
}

// Rebased converts changes of the current state, which handlers receive, into changes of the base plus the pending changes.
func (d *Draft) Rebased(doc patch.MergePatch) patch.MergePatch {
	if !d.isBehind {
		return doc
	}
	written := d.base.Content
	for _, p := range d.patches { // earlier handlers have changed the object, too
		written = p.Patch.Apply(written)
	}
	return doc.Rebase(d.current.Content, written)
}

// Apply applies changes to the current state, so that the handlers that follow see them.
func (d *Draft) Apply(changed patch.MergePatch) error {
	if len(changed) == 0 {
		return nil
	}
	content := changed.Apply(d.current.Content)
	obj := d.newObject()
	if err := d.current.Decode(content, changed, obj); err != nil {
		return progress.Permanent(fmt.Errorf("the changes of the handler do not fit the type of the object: %w", err))
	}
	d.setKind(obj)
	d.current = patch.Converted{Object: obj, Content: content}
	return nil
}

// setKind sets the apiVersion and the kind, which typed objects may lack.
func (d *Draft) setKind(obj client.Object) {
	if kind := d.stored.Object.GetObjectKind().GroupVersionKind(); obj.GetObjectKind().GroupVersionKind() != kind {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
}

// Add adds a handler's patch, unless it is empty.
func (d *Draft) Add(p *HandlerPatch) {
	if len(p.Patch) > 0 {
		d.patches = append(d.patches, p)
	}
}

// AddTo adds changes to a handler's patch. If the draft doesn't contain the patch, AddTo replaces its changes and adds it.
func (d *Draft) AddTo(p *HandlerPatch, doc patch.MergePatch) {
	if slices.Contains(d.patches, p) {
		p.Patch = patch.Merge(p.Patch, doc)
		return
	}
	p.Patch = doc
	d.Add(p)
}

// dropSuperseded removes fields from earlier handlers' pending changes after a handler has written newer values for them.
func (d *Draft) dropSuperseded(newer patch.MergePatch) {
	for _, p := range d.patches {
		p.Patch = p.Patch.WithoutOverwritten(newer, d.base.Content)
	}
	d.dropEmptyPatches()
}

func (d *Draft) dropEmptyPatches() {
	d.patches = slices.DeleteFunc(d.patches, func(p *HandlerPatch) bool { return len(p.Patch) == 0 })
}

// dropReports drops the pending conditions about handlers. The next write computes them again.
func (d *Draft) dropReports() {
	d.patches = slices.DeleteFunc(d.patches, func(p *HandlerPatch) bool { return p.Report })
}

// HandlerPatch is one attempt of a handler, with its changes.
type HandlerPatch struct {
	ID      string
	Policy  progress.Policy
	Before  progress.Record // the record before the attempt
	Outcome progress.Outcome
	// Patch contains the changes and the result.
	Patch patch.MergePatch
	// Untyped is true if Patch may have fields that the Go type lacks, such as a result.
	Untyped bool
	// Base is the JSON form of the object that the handler received.
	Base map[string]any
	// Report is true if Patch contains the conditions about handlers.
	Report bool
	// Open is true while the attempt or one of its sub-handlers is running. The outcome isn't known until then.
	Open bool
	// Rejection is the API server's error if it rejected Patch while Open was true.
	Rejection error
	// Repeat makes a handler that keeps no record on the object due again, because its patch was dropped. It is optional.
	Repeat func()
	// Fail records the outcome of a handler that keeps no record on the object, after the API server has rejected its patch. It is
	// optional.
	Fail func()

	singleRequest *patch.Change    // the request with this patch alone; nil if there is none
	written       patch.MergePatch // the part that was written before Patch, or before its rejection
}

// RejectedOutcome returns an attempt's outcome if its patch was rejected while its sub-handlers were being called.
func (p *HandlerPatch) RejectedOutcome(at time.Time) progress.Outcome {
	if isContested(p.Rejection) {
		return progress.Outcome{Waiting: true} // the attempt does not count
	}
	return p.Policy.Outcome(p.Before, at, p.Rejection)
}

// IsRejected reports whether retrying the request is pointless.
func IsRejected(err error) bool {
	_, rejected := errors.AsType[*patch.RejectedError](err)
	return rejected || isContested(err)
}

// isContested reports whether a write failed because another client had changed the same list.
func isContested(err error) bool {
	_, contested := errors.AsType[*patch.ListConflictError](err)
	return contested
}
