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

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/versions"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// ParsePath exports validation.FieldPath.
func ParsePath(path string) ([]string, error) { return validation.FieldPath(path) }

// CheckVerbs exports kinds.CheckVerbs for the kind of a resource.
func CheckVerbs(r Option, scheme *runtime.Scheme, verbs ...string) error {
	declared := r.(resource)
	kind, err := declared.kind(scheme, New(nil).kinds.Settings.Store, nil)
	if err != nil {
		return fmt.Errorf("the kind: %w", err)
	}
	storesEvents := false
	for _, events := range declared.eventSelections() {
		storesEvents = storesEvents || events.Since > 0
	}
	return kinds.CheckVerbs(&kind, storesEvents, verbs)
}

// ErrNotServed exports kinds.ExplainNotServed. The map lists the served kinds of each version, such as "example.com/v1":
// {"Database"}.
func ErrNotServed(gvk schema.GroupVersionKind, kindsOf map[string][]string) error {
	var all []kinds.ServedKind
	for _, version := range slices.Sorted(maps.Keys(kindsOf)) {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			return err
		}
		for _, kind := range kindsOf[version] {
			name := strings.ToLower(kind)
			all = append(all, kinds.ServedKind{GroupVersionKind: gv.WithKind(kind), Resource: metav1.APIResource{Name: name + "s", SingularName: name, ShortNames: []string{name[:2]}}})
		}
	}
	return kinds.ExplainNotServed(all, gvk)
}

// WithCauseHold adds a hold of causes for all kinds.
func WithCauseHold(hold engine.CauseHold) Option {
	return optionFunc(func(o *Operator) { o.kinds.Settings.CauseHolds = append(o.kinds.Settings.CauseHolds, hold) })
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

// WithPart adds a part to an operator.
func WithPart(p operator.Part) Option {
	return optionFunc(func(o *Operator) { o.added = append(o.added, p) })
}

// PollVersion exports versions.Poll.
var PollVersion = versions.Poll

// WarningsOfFields returns the warnings about handler fields that do not match the schema.
func WarningsOfFields(r Option, props *apiextensionsv1.JSONSchemaProps) (warnings []string) {
	if check := fieldCheck(r.(resource)); check != nil {
		check(props, func(_, _ string, problem error) { warnings = append(warnings, problem.Error()) })
	}
	return warnings
}

// UnfinishedEngines returns the number of ended engines that an operator has stored because of their daemons and timers.
func UnfinishedEngines(o *Operator) int {
	if o.kinds.Ring == nil {
		return 0
	}
	return o.kinds.Ring.Unfinished()
}

// StatusKinds returns the kinds of the status page.
func (o *Operator) StatusKinds() ([]statuspage.Kind, error) { return explainer{o}.Kinds() }
