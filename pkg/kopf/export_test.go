package kopf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/statuspage"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// ParsePath exports validation.FieldPath.
func ParsePath(path string) ([]string, error) { return validation.FieldPath(path) }

// CheckVerbs exports checkVerbs for the kind of a resource.
func CheckVerbs(r Option, scheme *runtime.Scheme, verbs ...string) error {
	declared := r.(resource)
	kind, err := declared.kind(scheme, New(nil).settings.Store, nil)
	if err != nil {
		return fmt.Errorf("the kind: %w", err)
	}
	return checkVerbs(&kind, declared, verbs)
}

// ErrNotServed exports explainNotServed. The map lists the served kinds of each version, such as "example.com/v1":
// {"Database"}.
func ErrNotServed(gvk schema.GroupVersionKind, served map[string][]string) error {
	var all []servedKind
	for _, version := range slices.Sorted(maps.Keys(served)) {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			return err
		}
		for _, kind := range served[version] {
			name := strings.ToLower(kind)
			all = append(all, servedKind{gv.WithKind(kind), metav1.APIResource{Name: name + "s", SingularName: name, ShortNames: []string{name[:2]}}})
		}
	}
	return explainNotServed(all, gvk)
}

// IsHandled exports handledEvents.contains for an annotation.
func IsHandled(annotation string, event *corev1.Event) bool {
	return IsHandledAt(annotation, event, handledAt)
}

// handledAt is after the times of all tests.
var handledAt = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)

// IsHandledAt is IsHandled at a time.
func IsHandledAt(annotation string, event *corev1.Event, now time.Time) bool {
	return parseHandledEvents(annotation, now).contains(event)
}

// WithHandled exports handledEvents.with for an annotation.
func WithHandled(annotation string, event *corev1.Event, waiting ...*corev1.Event) string {
	return parseHandledEvents(annotation, handledAt).with(event, waiting).String()
}

// PollVersion exports pollVersion.
var PollVersion = pollVersion

// WarningsOfFields returns the warnings about handler fields that do not match the schema.
func WarningsOfFields(r Option, props *apiextensionsv1.JSONSchemaProps) (warnings []string) {
	for _, d := range r.(resource).handlersWithUncheckedFields() {
		for _, err := range d.checkField(schemaField{props}, "the schema of the kind") {
			warnings = append(warnings, err.Error())
		}
	}
	return warnings
}

// UnfinishedEngines returns the number of ended engines that an operator has stored because of their daemons and timers.
func UnfinishedEngines(o *Operator) int {
	if o.ring == nil {
		return 0
	}
	return o.ring.Unfinished()
}

// StatusKinds returns the kinds of the status page.
func (o *Operator) StatusKinds() ([]statuspage.Kind, error) { return explainer{o}.Kinds() }
