package scenario

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// A Kind is the kind of objects in a scenario, with or without a Go type.
type Kind struct {
	Name string
	GVK  schema.GroupVersionKind
	// declare returns the resource with the handlers of a plan.
	declare func(handlerEnv) kopf.Option
}

// Kinds returns the kinds of the end-to-end suites. Widgets have a status subresource and a Go type. Gadgets have
// neither.
func Kinds() []Kind {
	widgets, gadgets := v1.GroupVersion.WithKind("Widget"), v1.GroupVersion.WithKind("Gadget")
	return []Kind{
		{"typed widgets", widgets, func(p handlerEnv) kopf.Option { return declared(p, &v1.Widget{}) }},
		{"untyped widgets", widgets, func(p handlerEnv) kopf.Option { return declared(p, kopf.Unstructured(widgets)) }},
		{"untyped gadgets", gadgets, func(p handlerEnv) kopf.Option { return declared(p, kopf.Unstructured(gadgets)) }},
	}
}

// content returns the JSON form of an object. Callers must not change it.
func content(obj client.Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	out, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic("scenario: cannot encode an object: " + err.Error())
	}
	return out
}

// change changes the JSON form of an object.
func change(obj client.Object, by func(content map[string]any)) {
	changed := runtime.DeepCopyJSON(content(obj))
	by(changed)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = changed
		return
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed, obj); err != nil {
		panic("scenario: cannot decode an object: " + err.Error())
	}
}

// A State is the part of an object that only users write. Handlers change other fields.
type State struct {
	Size  int64
	Color string
	Tier  string // a label
	Note  string // an annotation
	Tags  string // sorted tags of users
}

const (
	tierLabel = "example.com/tier"
	noteKey   = "example.com/note"
	ownPrefix = "by.example.com/" // prefix of labels and annotations of handlers
	tagPrefix = "user-"
)

// stateOf returns the state of an object or an essence in JSON form.
func stateOf(content map[string]any) (s State) {
	s.Size, _, _ = unstructured.NestedInt64(content, "spec", "size")
	s.Color, _, _ = unstructured.NestedString(content, "spec", "color")
	s.Tier, _, _ = unstructured.NestedString(content, "metadata", "labels", tierLabel)
	s.Note, _, _ = unstructured.NestedString(content, "metadata", "annotations", noteKey)
	tags, _, _ := unstructured.NestedStringSlice(content, "spec", "tags")
	tags = slices.DeleteFunc(tags, func(tag string) bool { return !strings.HasPrefix(tag, tagPrefix) })
	slices.Sort(tags)
	s.Tags = strings.Join(tags, ",")
	return s
}

// withoutTags returns the state without the tags. Handlers also change the tags, so their changes count as handled.
func (s State) withoutTags() State {
	s.Tags = ""
	return s
}

// String returns a short form for the log.
func (s State) String() string {
	return fmt.Sprintf("{%d %s tier=%s note=%s tags=%s}", s.Size, s.Color, s.Tier, s.Note, s.Tags)
}
