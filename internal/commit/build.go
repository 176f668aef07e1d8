package commit

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/leancache"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Input is the state at the time of a write.
type Input struct {
	Object  client.Object
	Content map[string]any // the JSON form of Object
	Cause   *cause.Cause
	// Progress contains the handlers' records. Build shortens their messages if they don't fit on the object.
	Progress *progress.State
	// Finished is true if all handlers of the cause have finished.
	Finished bool
	// Unmatched is true if no handler matches the object.
	Unmatched bool
	// Leaving is true if the object no longer matches the cache's selectors. This is then the last write to it.
	Leaving bool
	// Edited is true if handlers have changed the object since the cause was detected.
	Edited bool
	// Annotate changes the object's annotations. It is optional.
	Annotate func(annotations map[string]string)
	// Patches contains the handler patches, in order.
	Patches []*HandlerPatch
	// Revert undoes changes that the API server has accepted only in part.
	Revert patch.MergePatch
	Now    time.Time
}

// Transaction contains the changes of one write.
type Transaction struct {
	// Change contains the framework's part and the handlers' changes.
	Change *patch.Change
	// Handled is the handled essence after the write.
	Handled map[string]any
	// NewBaseline is the baseline that the write stores, or nil.
	NewBaseline []byte
	// BaselineTooLarge is true if only the baseline's digest is stored, because the baseline doesn't fit on the object.
	BaselineTooLarge bool
}

// Build returns the transaction for a reconcile's state.
func (b *Builder) Build(in Input) (Transaction, error) {
	change := &patch.Change{Before: in.Object, Content: in.Content}
	target := in.Content
	if len(in.Revert) > 0 {
		target = in.Revert.Apply(target)
	}
	for _, p := range in.Patches {
		target = p.Patch.Apply(target)
		change.ReadUntyped = change.ReadUntyped || p.Untyped
	}
	change.HandlerPatch = patch.Merge(in.Revert.RemovalsOfAbsentFields(in.Content), patch.Diff(in.Content, target))
	r := b.newStateDraft(in.Object, in.Cause, contentAnnotationsSize(target)-contentAnnotationsSize(in.Content))
	r.finished = in.Finished
	handled := b.Detector.MergeOwn(in.Content, in.Cause.New, change.HandlerPatch) // New, if the patch changes no field of the essence
	if in.Annotate != nil {                                                       // first, because the baseline and the pin take what room is left
		annotations := maps.Clone(r.target.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		in.Annotate(annotations)
		r.target.SetAnnotations(annotations)
	}
	err := r.saveOrPurge(in, change.HandlerPatch, handled)
	tx, err := r.transaction(change, handled, err)
	// Records in the status must be stored neither before the pin nor before the changes whose success they report.
	change.StatusLast = b.HasStatus && !in.Finished && change.FrameworkPatch["status"] != nil
	if in.Finished && in.Cause.Reason == cause.Delete {
		change.RemoveFinalizer = b.Finalizer
	}
	return tx, err
}

// BuildSpecFirst returns a transaction for the part of a change outside of the status. It contains no records, because they must not be
// stored before the status.
func (b *Builder) BuildSpecFirst(in Input, of *patch.Change) (Transaction, error) {
	change := &patch.Change{Before: of.Before, Content: of.Content, HandlerPatch: of.HandlerPatch.WithoutField("status"), ReadUntyped: of.ReadUntyped, Expected: of.Expected}
	target := change.HandlerPatch.Apply(in.Content)
	r := b.newStateDraft(in.Object, in.Cause, contentAnnotationsSize(target)-contentAnnotationsSize(in.Content))
	handled := b.Detector.MergeOwn(in.Content, in.Cause.New, change.HandlerPatch)
	var err error
	if in.Cause.Reason.HasHandlers() || in.Cause.Reason == cause.Noop {
		err = r.amendBaseline(in, change.HandlerPatch)
	}
	if in.Cause.Reason.HasHandlers() {
		err = errors.Join(err, r.storePinAhead(handled))
	}
	tx, err := r.transaction(change, handled, err)
	if change.FrameworkPatch["status"] != nil { // the next write of the status stores it
		change.FrameworkPatch = change.FrameworkPatch.WithoutField("status")
		return Transaction{Change: change, Handled: handled}, err
	}
	return tx, err
}

// BuildCorrection returns a transaction that stores a cause's baseline and pin again, after the API server has altered the handlers'
// changes.
func (b *Builder) BuildCorrection(obj client.Object, content map[string]any, c *cause.Cause, finished bool) (Transaction, error) {
	r := b.newStateDraft(obj, c, 0)
	r.finished = finished
	var err error
	switch {
	case finished:
		err = r.storeBaseline(c.New, false)
	case c.Old != nil:
		err = r.storeBaseline(c.Old, c.Reason.HasHandlers())
	}
	if c.Reason.HasHandlers() && !finished {
		err = errors.Join(err, r.storeCyclePin(c.New))
	}
	return r.transaction(&patch.Change{Before: obj, Content: content}, c.New, err)
}

// transaction completes a change with what the stateDraft has stored, unless there was an error.
func (d *stateDraft) transaction(change *patch.Change, handled map[string]any, err error) (Transaction, error) {
	if err == nil {
		change.FrameworkPatch, err = d.diff(change.Before, change.Content)
	}
	if err != nil {
		return Transaction{}, fmt.Errorf("recording progress: %w", err)
	}
	return Transaction{change, handled, d.newBaseline(change.Before), d.tooLarge}, nil
}

// BuildPin returns a change that stores a cause's pin. It must be written before the records.
func (b *Builder) BuildPin(obj client.Object, content map[string]any, c *cause.Cause) (*patch.Change, error) {
	r := b.newStateDraft(obj, c, 0)
	if err := r.storePin(c.PinAhead()); err != nil {
		return nil, err
	}
	doc, err := r.diff(obj, content)
	return &patch.Change{Before: obj, Content: content, FrameworkPatch: doc}, err
}

// saveOrPurge stores the records while the cause is being handled. When the cycle is over, it removes them and stores the baseline. Without
// a cause, it removes data that is no longer needed.
func (d *stateDraft) saveOrPurge(in Input, changed patch.MergePatch, handled map[string]any) error {
	switch {
	case in.Finished:
		return errors.Join(in.Progress.Purge(d.builder.Store, d.target), d.sweep(), d.closeCycle(in, handled))
	case in.Cause.Reason.HasHandlers():
		// The pin contains the baseline's digest, so the baseline is set on the copy first.
		return errors.Join(in.Progress.Save(d.builder.Store, d.target), d.amendBaseline(in, changed), d.storeCyclePin(handled), d.truncateMessages(in.Progress))
	case in.Leaving:
		d.removePin()
		return in.Progress.Purge(d.builder.Store, d.target) // no later reconcile can remove the records
	case in.Cause.Reason == cause.Noop:
		err := errors.Join(in.Progress.PurgeStale(d.builder.Store, d.target, in.Now), d.amendBaseline(in, changed))
		d.removePin()
		return err
	}
	return nil
}

// closeCycle stores the handled essence as the baseline: what the cycle started with, plus its handlers' changes. Changes that other
// clients made during the cycle are left out. A deleted object needs no baseline.
func (d *stateDraft) closeCycle(in Input, handled map[string]any) (err error) {
	c := d.cause
	switch {
	case c.Reason == cause.Delete:
	case c.PinnedDigest != "":
		err = d.storeDigest(c.PinnedDigest)
	case c.OutdatedBaseline:
		err = d.storeBaseline(handled, false)
	case c.HasBaseline && (!c.Changed || c.Reversed) && !in.Edited && diff.Equal(c.New, handled): // unchanged
	case c.Old != nil && !c.Reversed && diff.Equal(c.Old, handled):
	default:
		err = d.storeBaseline(handled, false)
	}
	var pin *cause.Pin
	if c.Seen != nil {
		pin = c.FinalPin(handled)
	}
	return errors.Join(err, d.storePin(pin))
}

// amendBaseline adds handlers' changes to the baseline before the cycle is over, because a later reconcile would otherwise take them for an
// update.
func (d *stateDraft) amendBaseline(in Input, changed patch.MergePatch) error {
	c := d.cause
	if c.OldDigest != "" {
		return d.storeDigest(c.OldDigest)
	}
	if c.Old == nil || c.Reason == cause.Delete || in.Unmatched {
		return nil
	}
	amended := d.builder.Detector.MergeOwn(in.Content, c.Old, changed)
	if diff.Equal(c.Old, amended) && !c.Reversed && !c.OutdatedBaseline {
		return nil
	}
	return d.storeBaseline(amended, c.Reason.HasHandlers())
}

// Builder builds the transactions for one kind. It is safe for concurrent use.
type Builder struct {
	Detector *cause.Detector
	Store    progress.Store
	Baseline essence.DigestBaseline
	Pin      progress.Baseline
	// Stamps is zero if the framework's part is stored outside of the objects, because it is then stored by uid.
	Stamps progress.Stamps
	// HandlerIDs are the ids of all cause handlers. The records of other handlers are removed at the end of a cycle.
	HandlerIDs []string
	// Requests removes users' requests, and the answers to them. It is optional.
	Requests essence.Cleaner
	// Revisions is the key of the notes about revisions. It is optional.
	Revisions *revision.Key
	// Lean is the form of cached objects. It is nil if they are whole.
	Lean      *leancache.Form
	Finalizer string
	HasStatus bool
	// DigestOnly is true if only digests of essences may be stored on the objects.
	DigestOnly bool
}

// SameFrameworkPart reports whether two states of an object have the same records, baseline and pin. Users' requests don't count.
func (b *Builder) SameFrameworkPart(one, other map[string]any) bool {
	for _, item := range diff.Of(b.frameworkPart(one), b.frameworkPart(other)) {
		if !isEmpty(item.Old) || !isEmpty(item.New) {
			return false
		}
	}
	return true
}

// frameworkPart returns what the framework has written to an object: records, baseline and pin.
func (b *Builder) frameworkPart(content map[string]any) map[string]any {
	with := runtime.DeepCopyJSON(content)
	if b.Requests != nil {
		b.Requests.Clear(with)
	}
	return patch.Diff(b.withoutFrameworkPart(content), with)
}

func (b *Builder) withoutFrameworkPart(content map[string]any) map[string]any {
	without := runtime.DeepCopyJSON(content)
	b.clear(without)
	return without
}

// clear removes the framework's part from a JSON form.
func (b *Builder) clear(content map[string]any) {
	for _, cleaner := range b.Detector.Essence.Cleaners {
		progress.ClearStored(cleaner, content)
	}
}

// isEmpty reports whether a value is nil or contains nothing but empty maps, which may be left after the last record was removed.
func isEmpty(value any) bool {
	fields, isMap := value.(map[string]any)
	for _, field := range fields {
		if !isEmpty(field) {
			return false
		}
	}
	return isMap || value == nil
}

func now() time.Time { return time.Now() }
