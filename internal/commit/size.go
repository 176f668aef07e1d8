package commit

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// The API server limits the size of all annotations of an object together. Other clients need room, too, so the engine stores its optional parts only
// up to the budget. The last-handled essence may use the whole limit, as in kopf.
const (
	annotationLimit  = 256 << 10
	annotationBudget = 240 << 10
)

// storeBaseline stores an essence as the last-handled configuration. If the object has no room for it, storeBaseline stores its digest, which still
// distinguishes changed from unchanged objects. During a cycle, storeBaseline does not replace a stored essence by a digest. If the API server then
// rejects the records, the engine keeps them in memory.
func (r *recorder) storeBaseline(of map[string]any, running bool) error {
	text, err := r.cause.EncodeEssence(of)
	if err != nil {
		return fmt.Errorf("the essence has no JSON form: %w", err)
	}
	superseded, before := r.Baseline.FetchIgnoringDigest(r.target), AnnotationsSize(r.target)
	isComplete := running && r.Baseline.HasFullEssence(r.target)
	r.Baseline.Store(r.target, text)
	if size := AnnotationsSize(r.target); size == before || size+r.added <= annotationLimit || isComplete {
		return nil
	}
	r.tooLarge = true
	return r.storeDigestOnly(essence.Digest(text), superseded)
}

// storeDigest stores the digest of the last-handled essence.
func (r *recorder) storeDigest(digest string) error {
	return r.storeDigestOnly(digest, r.Baseline.FetchIgnoringDigest(r.target))
}

func (r *recorder) storeDigestOnly(digest string, superseded []byte) error {
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

// storePin stores a pin, or as much of it as the object has room for. It removes the stored pin if p is nil.
func (r *recorder) storePin(p *cause.Pin) error {
	if p == nil {
		r.Pin.Store(r.target, nil)
		return nil
	}
	baseline := r.Baseline.Fetch(r.target)
	for _, stored := range []cause.Pin{*p, p.WithoutEssences()} {
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
