package kopf

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
)

// What the tests of matchers ask, which users cannot: matchers are sealed.

// Passes asks a matcher about a value in its JSON form.
func Passes(m Matcher, value any) bool { return m.matcher().test(value) }

// ParsePath splits the path of a field.
func ParsePath(path string) ([]string, error) { return parsePath(path) }

// CheckVerbs asks what a kind that is served with these verbs lacks for handlers, with progress or without.
func CheckVerbs(progress bool, verbs ...string) error {
	kind := engine.Kind{GVK: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}}
	if progress {
		if err := kind.Handlers.Add("created", "created", engine.Handler{}); err != nil {
			return errors.New("the handler was not added: " + err.Error())
		}
	}
	return checkVerbs(&kind, verbs)
}
