package commit

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// stamp adds the object's stamp to a patch of the framework, so that a copy of the object does not pass for the object. A stamp is never a reason for a
// request: an empty patch stays empty, and a patch of the status alone stays one request.
func (r *recorder) stamp(doc patch.MergePatch, obj client.Object) patch.MergePatch {
	if r.Stamps == (progress.Stamps{}) || len(doc) == 0 || r.finished && r.cause.Reason == cause.Delete {
		return doc
	}
	if _, annotates := diff.Lookup(map[string]any(doc), "metadata", "annotations"); !annotates && r.HasStatus {
		return doc
	}
	baseline := r.Baseline.Fetch(r.target)
	isRunning := r.cause.Reason.HasHandlers() && !r.finished
	key, value := r.Stamps.Key(obj.GetUID()), essence.BaselineDigest(baseline)
	before, isStamped := obj.GetAnnotations()[key]
	isTooLarge := !isStamped && AnnotationsSize(r.target)+r.added+len(key)+len(value) > annotationLimit // the baseline is more important
	switch {
	case baseline == nil && !isRunning:
		if !isStamped || r.hasRecords() {
			return doc
		}
		return patch.Merge(doc, patch.At([]string{"metadata", "annotations", key}, nil)) // the object carries no state any more
	case before == value, isTooLarge:
		return doc
	}
	return patch.Merge(doc, patch.At([]string{"metadata", "annotations", key}, value))
}

// hasRecords reports whether the target has the record of a handler.
func (r *recorder) hasRecords() bool {
	return slices.ContainsFunc(r.HandlerIDs, func(id string) bool {
		record, err := r.Store.Fetch(r.target, id)
		return record != nil || err != nil
	})
}

// isCopied reports whether the baseline of an object, or the absence of one, belongs to another object. own is the digest of the baseline that the object has
// had; it is empty if the object never had any state of its own.
func (b *Builder) isCopied(obj client.Object) (copied bool, own string) {
	own, _, others := b.Stamps.Read(obj)
	if len(others) == 0 {
		return false, own
	}
	// A baseline that fits no stamp is that of an operator that writes no stamps: Python kopf, or an earlier version.
	found := essence.BaselineDigest(b.Baseline.Fetch(obj))
	return own != found && slices.Contains(others, found), own
}

// disown returns the patch that removes the state of another object from a copy of it; nil if the state belongs to the object. If the object has no stamp of its
// own, all its state was copied. Otherwise, another client has put the other object's baseline back, and the stamp says which one the object has had.
func (b *Builder) disown(obj client.Object, content map[string]any) (patch.MergePatch, error) {
	copied, own := b.isCopied(obj)
	if !copied {
		return nil, nil
	}
	isOwn := own != ""
	if isOwn && own != essence.NoBaseline {
		r := b.newRecorder(obj, &cause.Cause{}, 0)
		if err := r.supersede(own, nil); err != nil {
			return nil, err
		}
		return r.diff(obj, content)
	}
	without := runtime.DeepCopyJSON(content)
	if isOwn {
		b.Baseline.Clear(without)
	} else {
		b.clear(without)
	}
	return removeFields(patch.Diff(content, without), content), nil
}
