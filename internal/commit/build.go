package commit

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Builder builds the transactions of one kind. It is safe for concurrent use.
type Builder struct {
	Detector *cause.Detector
	Store    progress.Store
	Baseline essence.DigestBaseline
	Pin      progress.Baseline
	// Stamps is zero if the framework's part is stored outside of the objects, by their uids.
	Stamps progress.Stamps
	// HandlerIDs are the ids of all cause handlers. At the end of a cycle, the transaction removes the records of other handlers.
	HandlerIDs []string
	Finalizer  string
	HasStatus  bool
	// DigestOnly is true if the objects must not contain essences, but only their digests.
	DigestOnly bool
}

// Input is the state at the time of a write.
type Input struct {
	Object  client.Object
	Content map[string]any // the JSON form of Object
	Cause   *cause.Cause
	// Progress contains the records of the handlers. Build shortens their messages if the object has no room for them.
	Progress *progress.State
	// Finished is true if all handlers of the cause have finished.
	Finished bool
	// Unmatched is true if no handler matches the object.
	Unmatched bool
	// Leaving is true if the object no longer matches the selectors of the cache. This is then the last write to the object.
	Leaving bool
	// Edited is true if handlers have changed the object since the cause was detected.
	Edited bool
	// Patches contains the handler patches, in order.
	Patches []*HandlerPatch
	// Revert undoes changes that the API server has accepted only in part.
	Revert patch.MergePatch
	Now    time.Time
}

// Transaction contains the changes of one write of a reconcile.
type Transaction struct {
	// Change contains the framework's part and the changes of handlers.
	Change *patch.Change
	// Handled is the handled essence after the write.
	Handled map[string]any
	// NewBaseline is the baseline that the write stores; nil if it stores none.
	NewBaseline []byte
	// BaselineTooLarge is true if only the digest of the baseline is stored, because the object has no room for it.
	BaselineTooLarge bool
}

// Build returns the transaction for the state of a reconcile.
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
	r := b.newRecorder(in.Object, in.Cause, contentAnnotationsSize(target)-contentAnnotationsSize(in.Content))
	r.finished = in.Finished
	handled := b.Detector.MergeOwn(in.Content, in.Cause.New, change.HandlerPatch) // New, if the patch changes no field of the essence
	if err := r.saveOrPurge(in, change.HandlerPatch, handled); err != nil {
		return Transaction{}, fmt.Errorf("recording progress: %w", err)
	}
	var err error
	if change.FrameworkPatch, err = r.diff(in.Object, in.Content); err != nil {
		return Transaction{}, fmt.Errorf("recording progress: %w", err)
	}
	// Records in the status must not be stored before the pin, and before the changes whose success they report.
	change.StatusLast = b.HasStatus && !in.Finished && change.FrameworkPatch["status"] != nil
	if in.Finished && in.Cause.Reason == cause.Delete {
		change.RemoveFinalizer = b.Finalizer
	}
	return Transaction{change, handled, r.newBaseline(in.Object), r.tooLarge}, nil
}

// BuildSpecFirst returns a transaction for the part of a change outside of the status. It stores no records: they must not be stored before the status.
func (b *Builder) BuildSpecFirst(in Input, of *patch.Change) (Transaction, error) {
	change := &patch.Change{Before: of.Before, Content: of.Content, HandlerPatch: of.HandlerPatch.WithoutField("status"), ReadUntyped: of.ReadUntyped, Expected: of.Expected}
	target := change.HandlerPatch.Apply(in.Content)
	r := b.newRecorder(in.Object, in.Cause, contentAnnotationsSize(target)-contentAnnotationsSize(in.Content))
	handled := b.Detector.MergeOwn(in.Content, in.Cause.New, change.HandlerPatch)
	var err error
	if in.Cause.Reason.HasHandlers() || in.Cause.Reason == cause.Noop {
		err = r.amendBaseline(in, change.HandlerPatch)
	}
	if in.Cause.Reason.HasHandlers() {
		err = errors.Join(err, r.storePinAhead(handled))
	}
	if err != nil {
		return Transaction{}, fmt.Errorf("recording progress: %w", err)
	}
	if change.FrameworkPatch, err = r.diff(in.Object, in.Content); err != nil {
		return Transaction{}, fmt.Errorf("recording progress: %w", err)
	}
	if change.FrameworkPatch["status"] != nil { // the next write of the status stores it
		change.FrameworkPatch = change.FrameworkPatch.WithoutField("status")
		return Transaction{Change: change, Handled: handled}, nil
	}
	return Transaction{change, handled, r.newBaseline(in.Object), r.tooLarge}, nil
}

// BuildCorrection returns a transaction that stores the baseline and the pin of a cause again, after the API server has altered the changes of handlers.
func (b *Builder) BuildCorrection(obj client.Object, content map[string]any, c *cause.Cause, finished bool) (Transaction, error) {
	r := b.newRecorder(obj, c, 0)
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
	if err != nil {
		return Transaction{}, err
	}
	change := &patch.Change{Before: obj, Content: content}
	if change.FrameworkPatch, err = r.diff(obj, content); err != nil {
		return Transaction{}, err
	}
	return Transaction{Change: change, Handled: c.New, NewBaseline: r.newBaseline(obj), BaselineTooLarge: r.tooLarge}, nil
}

// BuildPin returns a change that stores the pin of a cause. It must be written before the records.
func (b *Builder) BuildPin(obj client.Object, content map[string]any, c *cause.Cause) (*patch.Change, error) {
	r := b.newRecorder(obj, c, 0)
	if err := r.storePin(c.PinAhead()); err != nil {
		return nil, err
	}
	doc, err := r.diff(obj, content)
	return &patch.Change{Before: obj, Content: content, FrameworkPatch: doc}, err
}

// recorder stores the framework's part on a copy of an object.
type recorder struct {
	*Builder
	cause           *cause.Cause
	target          client.Object
	onlyAnnotations bool
	added           int // bytes that the changes of handlers add to the annotations
	tooLarge        bool
	finished        bool // the write ends the cycle
}

func (b *Builder) newRecorder(obj client.Object, c *cause.Cause, added int) *recorder {
	r := &recorder{Builder: b, cause: c, added: added}
	r.onlyAnnotations = progress.UsesOnlyAnnotations(b.Store, obj) && progress.UsesOnlyAnnotations(b.Baseline, obj) && progress.UsesOnlyAnnotations(b.Pin, obj)
	if r.onlyAnnotations {
		r.target = metadataOf(obj)
	} else {
		r.target = obj.DeepCopyObject().(client.Object)
	}
	return r
}

// metadataOf returns a copy of the metadata that stores read.
func metadataOf(obj client.Object) client.Object {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Labels: obj.GetLabels(), Annotations: maps.Clone(obj.GetAnnotations()), OwnerReferences: obj.GetOwnerReferences(),
	}}
	out.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return out
}

// diff returns the patch that changes the object to the target, and stamps it.
func (r *recorder) diff(obj client.Object, content map[string]any) (patch.MergePatch, error) {
	if r.onlyAnnotations {
		return r.stamp(patch.DiffAnnotations(obj.GetAnnotations(), r.target.GetAnnotations()), obj), nil
	}
	recorded, err := patch.Content(r.target)
	if err != nil {
		return nil, err
	}
	return r.stamp(removeFields(patch.Diff(content, recorded).WithoutNulls(content), content), obj), nil
}

// removeFields replaces the removal of all annotations, or of the whole status, by the removal of each known field. Other clients may have added fields since
// the object was read.
func removeFields(doc patch.MergePatch, content map[string]any) patch.MergePatch {
	target := doc.Apply(content)
	for _, path := range [][]string{{"metadata", "annotations"}, {"status"}} {
		before, existed := diff.Lookup(content, path...)
		if _, remains := diff.Lookup(target, path...); remains || !existed {
			continue
		}
		doc = doc.WithoutField(path...)
		removals := map[string]any{}
		fields, _ := before.(map[string]any)
		for field := range fields {
			removals[field] = nil
		}
		if len(removals) > 0 {
			doc = patch.Merge(doc, patch.At(path, removals))
		}
	}
	return doc
}

// saveOrPurge stores the records while the cause is being handled. At the end of the cycle, it removes them and stores the baseline. Without a cause, it
// removes data that is no longer needed.
func (r *recorder) saveOrPurge(in Input, changed patch.MergePatch, handled map[string]any) error {
	switch {
	case in.Finished:
		return errors.Join(in.Progress.Purge(r.Store, r.target), r.sweep(), r.closeCycle(in, handled))
	case in.Cause.Reason.HasHandlers():
		// The pin contains the digest of the baseline, so the baseline is set on the copy first.
		return errors.Join(in.Progress.Save(r.Store, r.target), r.amendBaseline(in, changed), r.storeCyclePin(handled), r.truncateMessages(in.Progress))
	case in.Leaving:
		r.removePin()
		return in.Progress.Purge(r.Store, r.target) // no later reconcile can remove the records
	case in.Cause.Reason == cause.Noop:
		err := errors.Join(in.Progress.PurgeStale(r.Store, r.target, in.Now), r.amendBaseline(in, changed))
		r.removePin()
		return err
	}
	return nil
}

// removePin removes the pin, unless this operator stores none. The pin is then that of another operator.
func (r *recorder) removePin() {
	if !r.Detector.Stateless {
		r.Pin.Store(r.target, nil)
	}
}

// sweep removes the records of handlers that the operator no longer has.
func (r *recorder) sweep() error {
	if sweeper, ok := r.Store.(progress.Sweeper); ok {
		return sweeper.Sweep(r.target, r.HandlerIDs)
	}
	return nil
}

// truncateMessages shortens the messages in the records until the object has room for all records.
func (r *recorder) truncateMessages(state *progress.State) error {
	for _, limit := range []int{256, 32, 0} {
		if AnnotationsSize(r.target)+r.added <= annotationLimit {
			return nil
		}
		state.TruncateMessages(limit)
		if err := state.Save(r.Store, r.target); err != nil {
			return err
		}
	}
	return nil
}

// closeCycle stores the handled essence as the baseline: the essence with which the cycle began, with the changes of its handlers. The baseline does
// not contain changes that other clients made during the cycle. A deleted object needs no baseline.
func (r *recorder) closeCycle(in Input, handled map[string]any) (err error) {
	c := r.cause
	switch {
	case c.Reason == cause.Delete:
	case c.PinnedDigest != "":
		err = r.storeDigest(c.PinnedDigest)
	case c.OutdatedBaseline:
		err = r.storeBaseline(handled, false)
	case c.HasBaseline && (!c.Changed || c.Reversed) && !in.Edited && diff.Equal(c.New, handled): // unchanged
	case c.Old != nil && !c.Reversed && diff.Equal(c.Old, handled):
	default:
		err = r.storeBaseline(handled, false)
	}
	var pin *cause.Pin
	if c.Seen != nil {
		pin = c.FinalPin(handled)
	}
	return errors.Join(err, r.storePin(pin))
}

// amendBaseline adds the changes of handlers to the baseline before the cycle ends. Otherwise, a later reconcile would detect these changes as an update.
func (r *recorder) amendBaseline(in Input, changed patch.MergePatch) error {
	c := r.cause
	if c.OldDigest != "" {
		return r.storeDigest(c.OldDigest)
	}
	if c.Old == nil || c.Reason == cause.Delete || in.Unmatched {
		return nil
	}
	amended := r.Detector.MergeOwn(in.Content, c.Old, changed)
	if diff.Equal(c.Old, amended) && !c.Reversed && !c.OutdatedBaseline {
		return nil
	}
	return r.storeBaseline(amended, c.Reason.HasHandlers())
}

// newBaseline returns the baseline of the target if it differs from the baseline of the object, or if another client has restored an old
// baseline. Otherwise, it returns nil.
func (r *recorder) newBaseline(obj client.Object) []byte {
	stored := r.Baseline.Fetch(r.target)
	if !r.cause.RestoredBaseline && bytes.Equal(stored, r.Baseline.Fetch(obj)) {
		return nil
	}
	return stored
}

// The API server limits the total size of all annotations of an object to annotationLimit. Other clients need room, too, so the engine stores optional data
// only up to annotationBudget. The last-handled configuration may use the whole limit, as in kopf.
const (
	annotationLimit  = 256 << 10
	annotationBudget = 240 << 10
)

// storeBaseline stores an essence as the last-handled configuration. If the object has no room for the essence, storeBaseline stores only the digest, which
// still distinguishes changed from unchanged objects. During a cycle, storeBaseline does not replace a stored essence by a digest. If the API server then
// rejects the records, the engine keeps them in memory.
func (r *recorder) storeBaseline(of map[string]any, running bool) error {
	text, err := r.cause.EncodeEssence(of)
	if err != nil {
		return fmt.Errorf("the essence has no JSON form: %w", err)
	}
	if r.DigestOnly {
		return r.storeDigest(essence.Digest(text))
	}
	superseded, before := r.Baseline.FetchIgnoringDigest(r.target), AnnotationsSize(r.target)
	isComplete := running && r.Baseline.HasFullEssence(r.target)
	r.Baseline.Store(r.target, text)
	if size := AnnotationsSize(r.target); size == before || size+r.added <= annotationLimit || isComplete {
		return nil
	}
	r.tooLarge = true
	return r.supersede(essence.Digest(text), superseded)
}

// storeDigest stores the digest of the last-handled essence.
func (r *recorder) storeDigest(digest string) error {
	if r.DigestOnly {
		return r.supersede(digest, nil) // the earlier text is confidential, too
	}
	return r.supersede(digest, r.Baseline.FetchIgnoringDigest(r.target))
}

func (r *recorder) supersede(digest string, superseded []byte) error {
	return r.Baseline.SupersedeByDigest(r.target, digest, superseded, func(obj client.Object) bool {
		return AnnotationsSize(obj)+r.added <= annotationBudget
	})
}

// storeCyclePin stores the essence that is being handled, for the next reconciles.
func (r *recorder) storeCyclePin(handled map[string]any) error {
	pin, err := r.cause.PinOf(handled)
	if err != nil {
		return err
	}
	return r.storePin(pin)
}

// storePinAhead stores the essence that is being handled, before any record.
func (r *recorder) storePinAhead(handled map[string]any) error {
	pin, err := r.cause.PinOf(handled)
	if err != nil || pin == nil {
		return err
	}
	pin.Ahead = pin.Digest != ""
	return r.storePin(pin)
}

// storePin stores a pin. If the object has no room for the essences of the pin, or must not contain them, storePin stores the pin without
// them. If p is nil, it removes the stored pin.
func (r *recorder) storePin(p *cause.Pin) error {
	if p == nil {
		r.removePin()
		return nil
	}
	baseline := r.Baseline.Fetch(r.target)
	forms := []cause.Pin{*p, p.WithoutEssences()}
	if r.DigestOnly {
		forms = forms[1:]
	}
	for _, stored := range forms {
		text, err := stored.Encode(baseline)
		if err != nil {
			return err
		}
		if r.Pin.Store(r.target, text); AnnotationsSize(r.target)+r.added <= annotationBudget {
			break
		}
	}
	return nil
}

// AnnotationsSize returns the number of bytes of all annotations of an object.
func AnnotationsSize(obj client.Object) int {
	size := 0
	for key, value := range obj.GetAnnotations() {
		size += len(key) + len(value)
	}
	return size
}

// contentAnnotationsSize is [AnnotationsSize] for the JSON form of an object.
func contentAnnotationsSize(content map[string]any) int {
	size := 0
	annotations, _ := diff.Lookup(content, "metadata", "annotations")
	all, _ := annotations.(map[string]any)
	for key, value := range all {
		text, _ := value.(string)
		size += len(key) + len(text)
	}
	return size
}
