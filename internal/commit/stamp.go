package commit

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

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
