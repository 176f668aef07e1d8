package commit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/commit"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func newWidget() client.Object { return &unstructured.Unstructured{} }

func newDraft(t *testing.T, obj client.Object) *commit.Draft {
	t.Helper()
	d, err := commit.NewDraft(newWidget, obj)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Handlers receive the object with the changes of the handlers before them, and the base remains.
func TestDraft_Apply(t *testing.T) {
	obj := object(sized(1))
	before := runtime.DeepCopyJSON(obj.Object)
	d := newDraft(t, obj)
	if err := d.Apply(own("x")); err != nil {
		t.Fatal(err)
	}
	if err := d.Apply(phase("Up")); err != nil {
		t.Fatal(err)
	}
	current := d.Current()
	equal(t, "LIFE-05 spec for the next handler", current.Content["spec"], any(m{"size": int64(1), "own": "x"}))
	equal(t, "LIFE-05 status for the next handler", current.Content["status"], any(m{"phase": "Up"}))
	equal(t, "object for the next handler", current.Object.(*unstructured.Unstructured).Object, current.Content)
	equal(t, "base", d.Content(), before)
	equal(t, "received object", obj.Object, before)
	if err := d.Apply(nil); err != nil || d.Current().Object != current.Object {
		t.Errorf("the error is %v, or a patch without changes has replaced the object", err)
	}
}

func TestDraft_ApplyRejectsChangesThatDoNotFitType(t *testing.T) {
	obj := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"key": "x"}}
	d, err := commit.NewDraft(func() client.Object { return &corev1.ConfigMap{} }, obj)
	if err != nil {
		t.Fatal(err)
	}
	err = d.Apply(patch.MergePatch{"data": int64(1)})
	if _, permanent := errors.AsType[*progress.PermanentError](err); !permanent || !strings.Contains(err.Error(), "do not fit the type") {
		t.Errorf("the error is %v", err)
	}
	if d.Current().Object != client.Object(obj) {
		t.Error("the rejected changes have replaced the object")
	}
	if err := d.Apply(patch.MergePatch{"data": m{"key": "y"}}); err != nil {
		t.Fatal(err)
	}
	equal(t, "object", d.Current().Object, client.Object(&corev1.ConfigMap{TypeMeta: obj.TypeMeta, Data: map[string]string{"key": "y"}}))
}

// A new base replaces the object that handlers receive. Pending changes stay pending.
func TestDraft_SetBase(t *testing.T) {
	d := newDraft(t, object(sized(1)))
	d.Add(&commit.HandlerPatch{Patch: own("x")})
	if err := d.Apply(own("x")); err != nil {
		t.Fatal(err)
	}
	newer := object(sized(2))
	if err := d.SetBase(newer); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]client.Object{"base": d.Base(), "stored object": d.Stored().Object, "object for handlers": d.Current().Object} {
		if got != client.Object(newer) {
			t.Errorf("the %s is %v", name, got)
		}
	}
	equal(t, "JSON form", d.Content(), newer.Object)
	equal(t, "number of pending patches", len(d.Patches()), 1)
}

// unencodable is an object without a JSON form.
type unencodable struct {
	metav1.PartialObjectMetadata
	Field complex128 `json:"field"`
}

func TestDraft_SetBaseRejectsObjectWithoutJSONForm(t *testing.T) {
	if _, err := commit.NewDraft(newWidget, &unencodable{Field: 1}); err == nil || !strings.Contains(err.Error(), "the object has no JSON form") {
		t.Errorf("the error is %v", err)
	}
}

func TestDraft_Add(t *testing.T) {
	d := newDraft(t, object(sized(1)))
	empty, p := &commit.HandlerPatch{}, &commit.HandlerPatch{}
	d.Add(empty)
	d.AddTo(empty, nil)
	equal(t, "PATCH-05 an empty patch", d.HasChanges(), false)
	d.AddTo(p, own("x"))
	d.AddTo(p, phase("Up"))
	d.AddTo(p, own("y"))
	equal(t, "patches", len(d.Patches()), 1)
	equal(t, "merged patch", p.Patch, patch.Merge(own("y"), phase("Up")))
}

// While a handler is running, a flush writes the object. The handler sees only its own change, and later changes are rebased.
func TestContinueAfterFlush(t *testing.T) {
	status := func(fields m) m { return m{"spec": m{"size": int64(1)}, "status": fields} }
	o := newOperator(t, defaults(), object(status(m{"phase": "Old", "list": []any{"x"}})))
	before := o.object()
	d, err := commit.NewDraft(newWidget, before)
	if err != nil {
		t.Fatal(err)
	}
	earlier := &commit.HandlerPatch{ID: "a", Patch: patch.MergePatch{"status": m{"phase": "Earlier", "a": "x", "list": []any{"x", "a"}}}}
	superseded := &commit.HandlerPatch{ID: "b", Patch: phase("Superseded")}
	for _, p := range []*commit.HandlerPatch{earlier, superseded} {
		d.Add(p)
		if err := d.Apply(p.Patch); err != nil {
			t.Fatal(err)
		}
	}
	flushed := phase("Flushed")
	doc := patch.MergePatch{"status": m{"list": []any{"x", "own"}}}
	equal(t, "patch before a flush", d.Rebased(doc), doc)

	o.edit(patch.MergePatch{"status": m{"foreign": "x", "list": []any{"x", "foreign"}}})
	o.transforms = func(content m) { content["kind"] = "" } // typed clients drop it
	written, err := o.committer.Write(o.ctx, &patch.Change{Before: before, Content: before.Object, HandlerPatch: flushed}, new(int64))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ContinueAfterFlush(flushed, written); err != nil {
		t.Fatal(err)
	}
	equal(t, "object for the handler", d.Current().Content["status"], any(m{"phase": "Flushed", "a": "x", "list": []any{"x", "a"}}))
	equal(t, "base", d.Content()["status"], any(m{"phase": "Flushed", "foreign": "x", "list": []any{"x", "foreign"}}))
	equal(t, "kind of the base", d.Base().GetObjectKind().GroupVersionKind(), widgetGVK)
	equal(t, "B-01 the patch of an earlier handler", earlier.Patch, patch.MergePatch{"status": m{"a": "x", "list": []any{"x", "foreign", "a"}}})
	equal(t, "patches", slices.Equal(d.Patches(), []*commit.HandlerPatch{earlier}), true)
	equal(t, "received versions", o.received, []string{written.GetResourceVersion()})

	later := patch.MergePatch{"status": m{"list": []any{"x", "a", "own"}, "other": "x"}}
	equal(t, "B-01 patch after a flush", d.Rebased(later), patch.MergePatch{"status": m{"list": []any{"x", "foreign", "a", "own"}, "other": "x"}})
	if err := d.SetBase(written); err != nil {
		t.Fatal(err)
	}
	equal(t, "patch after the next base", d.Rebased(later), later)
	added := patch.MergePatch{"status": m{"list": []any{"x", "foreign", "own"}}}
	equal(t, "patch of a handler that has received the next base", d.Rebased(added), added)
}
