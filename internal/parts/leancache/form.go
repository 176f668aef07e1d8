package leancache

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// A Form shrinks the objects of one kind, and makes them whole again. It is safe for concurrent use. A nil Form does nothing.
type Form struct {
	Essence  essence.Builder
	Baseline essence.DigestBaseline
}

// Shrink replaces an object's baseline by its digest if the object's essence equals the baseline. It changes the object in place, so no
// other goroutine may know the object yet.
func (f *Form) Shrink(obj client.Object) {
	if f == nil {
		return
	}
	stored := f.Baseline.Fetch(obj)
	if stored == nil || essence.IsDigestDocument(stored) {
		return
	}
	content, err := patch.Content(obj)
	if err != nil {
		return
	}
	live, err := essence.Encode(f.Essence.Build(content))
	if err != nil || string(live) != string(stored) {
		return
	}
	before := obj.GetAnnotations()
	if whole := copyOf(obj); !f.restores(whole, live, before) {
		return
	}
	document, err := essence.DigestDocument(live)
	if err != nil {
		return
	}
	obj.SetAnnotations(maps.Clone(before))
	f.Baseline.Baseline.Store(obj, document)
}

// restores reports whether storing an encoded essence results in exactly the given annotations.
func (f *Form) restores(obj client.Object, live []byte, annotations map[string]string) bool {
	f.Baseline.Store(obj, live)
	return maps.Equal(obj.GetAnnotations(), annotations)
}

// IsShrunk reports whether [Form.Shrink] may have changed an object.
func (f *Form) IsShrunk(obj client.Object) bool {
	return f != nil && essence.IsDigestDocument(f.Baseline.FetchIgnoringDigest(obj))
}

// Whole returns an object with the text of its baseline, and its JSON form, without changing the given ones. For an object that was not
// shrunk, it returns the given ones. content may be nil if the JSON form isn't known, and the result is then nil, too.
func (f *Form) Whole(obj client.Object, content map[string]any) (whole client.Object, wholeContent map[string]any, err error) {
	if !f.IsShrunk(obj) {
		return obj, content, nil
	}
	known := content
	if known == nil {
		if known, err = patch.Content(obj); err != nil {
			return nil, nil, err
		}
	}
	live, err := essence.Encode(f.Essence.Build(known))
	if err != nil {
		return nil, nil, err
	}
	if essence.BaselineDigest(f.Baseline.FetchIgnoringDigest(obj)) != essence.Digest(live) {
		return obj, content, nil // an earlier version has stored the digest
	}
	whole = copyOf(obj)
	f.Baseline.Store(whole, live)
	u, untyped := whole.(*unstructured.Unstructured)
	switch {
	case content == nil:
		return whole, nil, nil
	case untyped:
		return whole, u.Object, nil
	}
	return whole, withAnnotations(content, whole.GetAnnotations()), nil
}

// SetWhole makes an object whole in place. The object may share its fields with the cache.
func (f *Form) SetWhole(obj client.Object) error {
	whole, _, err := f.Whole(obj, nil)
	if err == nil && whole != obj {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(whole).Elem())
	}
	return err
}

// copyOf returns a copy of an object whose annotations can be changed. It shares the other fields with the object.
func copyOf(obj client.Object) client.Object {
	annotations := maps.Clone(obj.GetAnnotations())
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return &unstructured.Unstructured{Object: withAnnotations(u.Object, annotations)}
	}
	copied := patch.ShallowCopy(obj)
	copied.SetAnnotations(annotations)
	return copied
}

// withAnnotations returns a JSON form with different annotations. It shares the other fields with the given one.
func withAnnotations(content map[string]any, texts map[string]string) map[string]any {
	annotations := make(map[string]any, len(texts))
	for key, text := range texts {
		annotations[key] = text
	}
	content = maps.Clone(content)
	meta, _ := content["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	content["metadata"], meta["annotations"] = meta, annotations
	return content
}
