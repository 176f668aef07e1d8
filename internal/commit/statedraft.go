package commit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// stateDraft stores the framework's part on a copy of an object.
type stateDraft struct {
	builder         *Builder
	cause           *cause.Cause
	target          client.Object
	onlyAnnotations bool
	added           int // bytes that the handlers' changes add to the annotations
	tooLarge        bool
	finished        bool // the write completes the cycle
}

func (b *Builder) newStateDraft(obj client.Object, c *cause.Cause, added int) *stateDraft {
	d := &stateDraft{builder: b, cause: c, added: added}
	d.onlyAnnotations = progress.UsesOnlyAnnotations(b.Store, obj) && progress.UsesOnlyAnnotations(b.Baseline, obj) && progress.UsesOnlyAnnotations(b.Pin, obj)
	if d.onlyAnnotations {
		d.target = metadataOf(obj)
	} else {
		d.target = obj.DeepCopyObject().(client.Object)
	}
	return d
}

// metadataOf returns a copy of the metadata that the stores need.
func metadataOf(obj client.Object) client.Object {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Labels: obj.GetLabels(), Annotations: maps.Clone(obj.GetAnnotations()), OwnerReferences: obj.GetOwnerReferences(),
	}}
	out.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return out
}

// removePin removes the pin, unless this operator doesn't store any. Then it belongs to a different operator.
func (d *stateDraft) removePin() {
	if !d.builder.Detector.Stateless {
		d.builder.Pin.Store(d.target, nil)
	}
}

// sweep removes records of handlers that the operator no longer has.
func (d *stateDraft) sweep() error {
	if sweeper, ok := d.builder.Store.(progress.Sweeper); ok {
		return sweeper.Sweep(d.target, d.builder.HandlerIDs)
	}
	return nil
}

// truncateMessages shortens the messages in the records, step by step, as long as the records don't fit on the object.
func (d *stateDraft) truncateMessages(state *progress.State) error {
	for _, limit := range []int{256, 32, 0} {
		if AnnotationsSize(d.target)+d.added <= annotationLimit {
			return nil
		}
		state.TruncateMessages(limit)
		if err := state.Save(d.builder.Store, d.target); err != nil {
			return err
		}
	}
	return nil
}

// storeBaseline stores an essence as the last-handled configuration. If it doesn't fit on the object, only its digest is stored, which is
// enough to detect changes. During a cycle, though, a stored essence is never replaced with a digest. If the API server then rejects the
// records, the engine keeps them in memory.
func (d *stateDraft) storeBaseline(of map[string]any, running bool) error {
	text, err := d.cause.EncodeEssence(of)
	if err != nil {
		return fmt.Errorf("the essence has no JSON form: %w", err)
	}
	if d.builder.DigestOnly {
		return d.storeDigest(essence.Digest(text))
	}
	superseded, before := d.builder.Baseline.FetchIgnoringDigest(d.target), AnnotationsSize(d.target)
	isComplete := running && d.builder.Baseline.HasFullEssence(d.target)
	d.builder.Baseline.Store(d.target, text)
	if size := AnnotationsSize(d.target); size == before || size+d.added <= annotationLimit || isComplete {
		return nil
	}
	d.tooLarge = true
	return d.supersede(essence.Digest(text), superseded)
}

// storeDigest stores the digest of the last-handled essence.
func (d *stateDraft) storeDigest(digest string) error {
	if d.builder.DigestOnly {
		return d.supersede(digest, nil) // the earlier text is confidential, too
	}
	return d.supersede(digest, d.builder.Baseline.FetchIgnoringDigest(d.target))
}

func (d *stateDraft) supersede(digest string, superseded []byte) error {
	return d.builder.Baseline.SupersedeByDigest(d.target, digest, superseded, func(obj client.Object) bool {
		return AnnotationsSize(obj)+d.added <= annotationBudget
	})
}

// storeCyclePin stores the essence that is being handled, so that the next reconciles know it.
func (d *stateDraft) storeCyclePin(handled map[string]any) error {
	pin, err := d.cause.PinOf(handled)
	if err != nil {
		return err
	}
	return d.storePin(pin)
}

// storePinAhead stores the essence that is being handled before any record is stored.
func (d *stateDraft) storePinAhead(handled map[string]any) error {
	pin, err := d.cause.PinOf(handled)
	if err != nil || pin == nil {
		return err
	}
	pin.Ahead = pin.Digest != ""
	return d.storePin(pin)
}

// storePin stores a pin, without its essences if they don't fit on the object or must not be stored there. If p is nil, it removes the
// stored pin.
func (d *stateDraft) storePin(p *cause.Pin) error {
	if p == nil {
		d.removePin()
		return nil
	}
	baseline := d.builder.Baseline.Fetch(d.target)
	forms := []cause.Pin{*p, p.WithoutEssences()}
	if d.builder.DigestOnly {
		forms = forms[1:]
	}
	for _, stored := range forms {
		text, err := stored.Encode(baseline)
		if err != nil {
			return err
		}
		if d.builder.Pin.Store(d.target, text); AnnotationsSize(d.target)+d.added <= annotationBudget {
			break
		}
	}
	return nil
}

// The API server limits the total size of an object's annotations to annotationLimit. Other clients need room, too, so the engine stores
// optional data only up to annotationBudget. The last-handled configuration may use the whole limit, as in kopf.
const (
	annotationLimit  = 256 << 10
	annotationBudget = 240 << 10
)

// newBaseline returns the target's baseline if it differs from the object's, or if another client has restored an old one. Otherwise it
// returns nil.
func (d *stateDraft) newBaseline(obj client.Object) []byte {
	stored := d.builder.Baseline.Fetch(d.target)
	if !d.cause.RestoredBaseline && bytes.Equal(stored, d.builder.Baseline.Fetch(obj)) {
		return nil
	}
	return stored
}

// diff returns the patch that turns the object into the target, and stamps it.
func (d *stateDraft) diff(obj client.Object, content map[string]any) (patch.MergePatch, error) {
	d.builder.Revisions.Renew(d.target, d.baselineOf(obj), d.baselineOf(d.target))
	if d.onlyAnnotations {
		doc := patch.DiffAnnotations(obj.GetAnnotations(), d.target.GetAnnotations())
		if key, value, changed := d.stamp(doc, obj); changed {
			doc["metadata"].(map[string]any)["annotations"].(map[string]any)[key] = value // the document is new, and has annotations
		}
		return doc, nil
	}
	recorded, err := patch.Content(d.target)
	if err != nil {
		return nil, err
	}
	doc := removeFields(patch.Diff(content, recorded).WithoutNulls(content), content)
	if key, value, changed := d.stamp(doc, obj); changed {
		doc = patch.Merge(doc, patch.At([]string{"metadata", "annotations", key}, value))
	}
	return doc, nil
}

// baselineOf returns a function that returns the digest of an object's baseline.
func (d *stateDraft) baselineOf(obj client.Object) func() string {
	return func() string { return essence.BaselineDigest(d.builder.Baseline.Fetch(obj)) }
}

// removeFields replaces the removal of all annotations, or of the whole status, with the removal of each known field. Other clients may
// have added fields since the object was read.
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

// stamp returns the stamp for a framework patch, so that a copy of the object isn't taken for the object itself. A nil value removes the
// stamp. A stamp is never a reason for a request: an empty patch stays empty, and a patch of only the status stays one request.
func (d *stateDraft) stamp(doc patch.MergePatch, obj client.Object) (key string, value any, changed bool) {
	if d.builder.Stamps == (progress.Stamps{}) || len(doc) == 0 || d.finished && d.cause.Reason == cause.Delete {
		return "", nil, false
	}
	if _, annotates := diff.Lookup(map[string]any(doc), "metadata", "annotations"); !annotates && d.builder.HasStatus {
		return "", nil, false
	}
	baseline := d.builder.Baseline.Fetch(d.target)
	isRunning := d.cause.Reason.HasHandlers() && !d.finished
	key, digest := d.builder.Stamps.Key(obj.GetUID()), essence.BaselineDigest(baseline)
	before, isStamped := obj.GetAnnotations()[key]
	isTooLarge := !isStamped && AnnotationsSize(d.target)+d.added+len(key)+len(digest) > annotationLimit // the baseline is more important
	switch {
	case baseline == nil && !isRunning:
		return key, nil, isStamped && !d.hasRecords() // nothing is stored on the object any more
	case before == digest, isTooLarge:
		return key, nil, false
	}
	return key, digest, true
}

// hasRecords reports whether the target has a record of any handler.
func (d *stateDraft) hasRecords() bool {
	return slices.ContainsFunc(d.builder.HandlerIDs, func(id string) bool {
		record, err := d.builder.Store.Fetch(d.target, id)
		return record != nil || err != nil
	})
}

// disown returns the patch that removes a different object's state from a copy of it, or nil if the state is the object's own. If the
// object doesn't have its own stamp, all of its state was copied. Otherwise another client has put the other object's baseline back, and
// the stamp says which one the object had.
func (b *Builder) disown(obj client.Object, content map[string]any) (patch.MergePatch, error) {
	copied, own := b.isCopied(obj)
	if !copied {
		return nil, nil
	}
	isOwn := own != ""
	if isOwn && own != essence.NoBaseline {
		d := b.newStateDraft(obj, &cause.Cause{}, 0)
		if err := d.supersede(own, nil); err != nil {
			return nil, err
		}
		return d.diff(obj, content)
	}
	without := runtime.DeepCopyJSON(content)
	if isOwn {
		b.Baseline.Clear(without)
	} else {
		b.clear(without)
	}
	return removeFields(patch.Diff(content, without), content), nil
}

// isCopied reports whether an object's baseline, or its absence, comes from a different object. own is the digest of the object's own last
// baseline, and empty if the object never had state of its own.
func (b *Builder) isCopied(obj client.Object) (copied bool, own string) {
	own, _, others := b.Stamps.Read(obj)
	if len(others) == 0 {
		return false, own
	}
	// A baseline that fits no stamp comes from an operator that doesn't write stamps: Python kopf, or an earlier version.
	found := essence.BaselineDigest(b.Baseline.Fetch(obj))
	return own != found && slices.Contains(others, found), own
}

// AnnotationsSize returns the size of an object's annotations in bytes.
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
