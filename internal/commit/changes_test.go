package commit_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// converted returns an object with its JSON form.
func converted(obj *unstructured.Unstructured) patch.Converted {
	return patch.Converted{Object: obj, Content: obj.Object}
}

// The changes of a handler are the differences between its copy and the object that it has received, without the fields of the framework.
func TestChangesOf(t *testing.T) {
	meta := func(fields m) patch.MergePatch { return patch.MergePatch{"metadata": fields} }
	for _, test := range []struct {
		name string
		obj  func(obj *unstructured.Unstructured)
		copy func(copied *unstructured.Unstructured)
		want patch.MergePatch
	}{
		{"PATCH-05 no change", nil, func(*unstructured.Unstructured) {}, nil},
		{"PATCH-12 a change", nil, func(copied *unstructured.Unstructured) { copied.Object["spec"] = m{"own": "x"} }, patch.MergePatch{"spec": m{"own": "x", "size": nil}}},
		{"PATCH-12 Go types", nil, func(copied *unstructured.Unstructured) {
			copied.Object["status"] = m{"number": 3, "tags": []string{"x"}}
		}, patch.MergePatch{"status": m{"number": int64(3), "tags": []any{"x"}}}},
		{"PATCH-12 fields of the API server", nil, func(copied *unstructured.Unstructured) {
			copied.SetGeneration(9)
			copied.SetSelfLink("x")
		}, nil},
		{"ESS-07 other annotations", nil, func(copied *unstructured.Unstructured) {
			copied.SetAnnotations(map[string]string{"new": "x"}) // removes those of the framework
		}, meta(m{"annotations": m{"new": "x", "foreign": nil}})},
		{"ESS-07 no annotations", nil, func(copied *unstructured.Unstructured) {
			unstructured.RemoveNestedField(copied.Object, "metadata", "annotations")
		}, meta(m{"annotations": m{"foreign": nil}})},
		{"ESS-07 annotations of the framework", nil, func(copied *unstructured.Unstructured) {
			annotate(copied, prefix+"a", "{}")
			annotate(copied, baselineKey, "{}")
			annotate(copied, pinKey, "{}")
		}, nil},
		{"PROG-07 the status of the framework", nil, func(copied *unstructured.Unstructured) {
			copied.Object["status"] = m{"kopf": m{"progress": m{"a": m{}}}, "phase": "Up"}
		}, phase("Up")},
		{"FIN-14 no finalizers", nil, func(copied *unstructured.Unstructured) { copied.SetFinalizers(nil) }, meta(m{"finalizers": []any{finalizer}})},
		{"FIN-14 another finalizer", nil, func(copied *unstructured.Unstructured) {
			copied.SetFinalizers([]string{"new"})
		}, meta(m{"finalizers": []any{"new", finalizer}})},
		{"FIN-14 our finalizer, which the object does not have", func(obj *unstructured.Unstructured) { obj.SetFinalizers([]string{"foreign"}) }, func(copied *unstructured.Unstructured) {
			copied.SetFinalizers([]string{"foreign", "new", finalizer})
		}, meta(m{"finalizers": []any{"foreign", "new"}})},
		{"FIN-14 no change of finalizers", nil, func(copied *unstructured.Unstructured) { copied.SetLabels(map[string]string{"x": "y"}) }, meta(m{"labels": m{"x": "y"}})},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := object(sized(1), "foreign", "x", prefix+"b", "{}", baselineKey, text(sized(1)))
			obj.SetFinalizers([]string{finalizer})
			if test.obj != nil {
				test.obj(obj)
			}
			o := newOperator(t, defaults(), obj)
			copied := obj.DeepCopy()
			test.copy(copied)
			got, base, err := o.committer.ChangesOf(o.ctx, converted(obj), "a", copied)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "base", base, obj.Object)
			equal(t, "effect", got.Apply(obj.Object), test.want.Apply(obj.Object))
			equal(t, "changes", hasChanges(got), len(test.want) > 0)
			if len(test.want) > 0 {
				equal(t, "patch", got, test.want)
			}
			equal(t, "reads", o.reads, 0)
		})
	}
}

// hasChanges reports whether a patch contains fields. Removing the fields of the framework may leave empty maps.
func hasChanges(doc patch.MergePatch) bool {
	for _, value := range doc {
		inner, isMap := value.(m)
		if !isMap || hasChanges(inner) {
			return true
		}
	}
	return false
}

// A handler must not turn its copy into another object.
func TestChangesOf_ChecksIdentity(t *testing.T) {
	for _, test := range []struct {
		name string
		copy func(copied *unstructured.Unstructured) client.Object
		want string // part of the error; empty: none
	}{
		{"B-06 nil", func(*unstructured.Unstructured) client.Object { return (*unstructured.Unstructured)(nil) }, "req.Object must not be nil"},
		{"B-06 the apiVersion", func(c *unstructured.Unstructured) client.Object { c.SetAPIVersion("example.com/v2"); return c }, `apiVersion must not be changed from "example.com/v1" to "example.com/v2"`},
		{"B-06 the kind", func(c *unstructured.Unstructured) client.Object { c.SetKind("Other"); return c }, `kind must not be changed from "Widget" to "Other"`},
		{"B-06 the name", func(c *unstructured.Unstructured) client.Object { c.SetName("x"); return c }, `metadata.name must not be changed from "w" to "x"`},
		{"B-06 the namespace", func(c *unstructured.Unstructured) client.Object { c.SetNamespace("x"); return c }, `metadata.namespace must not be changed from "default" to "x"`},
		{"B-06 the uid", func(c *unstructured.Unstructured) client.Object { c.SetUID("2"); return c }, `metadata.uid must not be changed from "1" to "2"`},
		{"B-06 no uid", func(c *unstructured.Unstructured) client.Object { c.SetUID(""); c.SetResourceVersion("8"); return c }, `metadata.uid must not be changed from "1" to ""`},
		{"B-06 no uid and no version", func(c *unstructured.Unstructured) client.Object { c.SetUID("2"); c.SetResourceVersion(""); return c }, `metadata.uid must not be changed from "1" to "2"`},
		{"B-06 a client has dropped the kind", func(c *unstructured.Unstructured) client.Object { c.SetAPIVersion(""); c.SetKind(""); return c }, ""},
		{"B-06 a client has read a re-created object", func(c *unstructured.Unstructured) client.Object { c.SetUID("2"); c.SetResourceVersion("8"); return c }, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := object(sized(1))
			o := newOperator(t, defaults(), obj)
			got, _, err := o.committer.ChangesOf(o.ctx, converted(obj), "a", test.copy(obj.DeepCopy()))
			if test.want == "" {
				if err != nil || len(got) > 0 {
					t.Errorf("changes %v, error %v", got, err)
				}
				return
			}
			if _, permanent := errors.AsType[*progress.PermanentError](err); !permanent || !strings.Contains(err.Error(), `handler "a": `+test.want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A handler that has read or written the object with a client has changed that state of the object.
func TestChangesOf_FindsBaseOfOtherVersion(t *testing.T) {
	foreign := patch.MergePatch{"spec": m{"foreign": "x"}}
	for _, test := range []struct {
		name    string
		prepare func(o *operator) *unstructured.Unstructured // returns the state that the handler has read
		want    patch.MergePatch
		reads   int
		warns   bool
	}{
		{"PATCH-08 the cache has it", func(o *operator) *unstructured.Unstructured {
			o.edit(foreign)
			o.cached = o.object()
			return o.object()
		}, own("x"), 0, false},
		{"PATCH-08 the API server has it", func(o *operator) *unstructured.Unstructured {
			o.cached = o.object()
			o.edit(foreign)
			return o.object()
		}, own("x"), 1, false},
		{"PATCH-08 the cache lacks the object", func(o *operator) *unstructured.Unstructured {
			o.edit(foreign)
			return o.object()
		}, own("x"), 1, false},
		{"PATCH-08 another client has changed the object since", func(o *operator) *unstructured.Unstructured {
			o.edit(foreign)
			read := o.object()
			o.edit(foreign)
			return read
		}, nil, 1, true},
		{"PATCH-08 the object is deleted", func(o *operator) *unstructured.Unstructured {
			o.edit(foreign)
			read := o.object()
			o.content = nil
			return read
		}, nil, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			obj := object(sized(1))
			o := newOperator(t, defaults(), obj)
			copied := test.prepare(o)
			copied.Object["spec"].(m)["own"] = "x"
			got, _, err := o.committer.ChangesOf(o.ctx, converted(obj), "a", copied)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "changes", got, test.want)
			equal(t, "live reads", o.reads, test.reads)
			equal(t, "warnings", len(o.logs) > 0, test.warns)
		})
	}
	for name, prepare := range map[string]func(o *operator){
		"the API server cannot be read": func(o *operator) { o.failReads = errUnavailable },
		"the cache cannot be read": func(o *operator) {
			o.committer.ReadCached = func(context.Context, client.ObjectKey) (client.Object, error) { return nil, errUnavailable }
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(sized(1))
			o := newOperator(t, defaults(), obj)
			prepare(o)
			copied := obj.DeepCopy()
			copied.SetResourceVersion("8")
			if _, _, err := o.committer.ChangesOf(o.ctx, converted(obj), "a", copied); !errors.Is(err, errUnavailable) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

func TestTakeChanges(t *testing.T) {
	obj := object(sized(1))
	o := newOperator(t, defaults(), obj)
	d := newDraft(t, obj)
	copied := obj.DeepCopy()
	copied.Object["spec"].(m)["own"] = "x"
	doc, err := o.committer.TakeChanges(o.ctx, d, "a", copied)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "LIFE-05 patch", doc, own("x"))
	equal(t, "LIFE-05 object for the next handler", d.Current().Content["spec"], copied.Object["spec"])

	copied.Object["spec"].(m)["bad"] = func() {}
	_, err = o.committer.TakeChanges(o.ctx, d, "a", copied)
	if _, permanent := errors.AsType[*progress.PermanentError](err); !permanent || !strings.Contains(err.Error(), "cannot be encoded as JSON") {
		t.Errorf("the error is %v", err)
	}
	equal(t, "object after an error", d.Current().Content["spec"], any(m{"size": int64(1), "own": "x"}))
}

// The JSON form of a Go type has the types of decoded JSON.
func TestChangesOf_GoType(t *testing.T) {
	o := newOperator(t, defaults(), object(sized(1)))
	o.committer.Writer.GVK = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "1"}, Data: map[string]string{"a": "x", "b": "x"}}
	content, err := patch.Content(obj)
	if err != nil {
		t.Fatal(err)
	}
	copied := obj.DeepCopy()
	copied.Data = map[string]string{"a": "y"}
	got, base, err := o.committer.ChangesOf(o.ctx, patch.Converted{Object: obj, Content: content}, "a", copied)
	if err != nil || !reflect.DeepEqual(base, content) {
		t.Errorf("error %v, base %v", err, base)
	}
	equal(t, "PATCH-12 changes", got, patch.MergePatch{"data": m{"a": "y", "b": nil}})
}

// An annotation with the prefix of the framework is not written. The log says so once, if the handler has set the annotation: it may belong to the user.
func TestChangesOf_LogsAnnotationsOfTheFramework(t *testing.T) {
	obj := object(sized(1))
	obj.SetAnnotations(map[string]string{progress.DefaultPrefix + "/a": "{}", "example.com/own": "x"})
	o := newOperator(t, defaults(), obj)
	var logged []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	for range 2 {
		for _, annotations := range []map[string]string{
			{progress.DefaultPrefix + "/mark": "true", progress.DefaultPrefix + "/a": "{}", "example.com/own": "y"},
			{"example.com/own": "y"}, // without the annotations of the framework
		} {
			copied := obj.DeepCopy()
			copied.SetAnnotations(annotations)
			got, _, err := o.committer.ChangesOf(ctx, converted(obj), "paint", copied)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "changes", got, patch.At([]string{"metadata", "annotations", "example.com/own"}, "y"))
		}
	}
	if len(logged) != 1 || !strings.Contains(logged[0], `"annotation"="kopf.zalando.org/mark"`) || !strings.Contains(logged[0], `"handler"="paint"`) {
		t.Errorf("the log says %q", logged)
	}
}
