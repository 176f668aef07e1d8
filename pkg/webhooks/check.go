package webhooks

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// Check tells all mistakes in the declaration, joined: what is wrong, and what to do. [Server.Validate] does
// it too, and tells what is wrong with hooks that do not go together.
func (h Hook) Check() error {
	h.mistakes = slices.Clone(h.mistakes)
	h.checkID()
	h.checkRule()
	h.checkPolicies()
	h.checkSelectors()
	h.checkConditions()
	for i, mistake := range h.mistakes {
		h.mistakes[i] = fmt.Errorf("%s: %w", h.where(), mistake)
	}
	return errors.Join(h.mistakes...)
}

func (h *Hook) checkID() {
	if h.id == "" {
		h.mistakef("the id is empty: give the handler a name")
		return
	}
	for segment := range strings.SplitSeq(h.id, "/") {
		if segment == "" || segment == "." || segment == ".." {
			h.mistakef("the id is no path: leave out empty parts, %q and %q", ".", "..")
			return
		}
	}
}

func (h *Hook) checkRule() {
	s := h.settings
	if s.operationsSet && len(s.operations) == 0 {
		h.mistakef("Operations names none: name some, or leave it out")
	}
	known := []admissionregistrationv1.OperationType{
		admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update,
		admissionregistrationv1.Delete, admissionregistrationv1.Connect,
	}
	for i, operation := range s.operations {
		switch {
		case !slices.Contains(known, operation):
			h.mistakef("Operations: there is no %q: use CREATE, UPDATE, DELETE, CONNECT or *", operation)
		case slices.Contains(s.operations[:i], operation):
			h.mistakef("Operations names %s twice: name it once", operation)
		case operation == admissionregistrationv1.OperationAll && len(s.operations) > 1:
			h.mistakef("Operations names * and others: leave the others out")
		}
	}
	if s.subresource != "" && s.subresource != "*" && validation.DNSLabel(s.subresource) != nil {
		h.mistakef("Subresource(%q) is no subresource: use one such as \"status\", without the resource, or \"*\"", s.subresource)
	}
	if err := validation.DNSLabel(s.plural); s.plural != "" && err != nil {
		h.mistakef("Plural(%q) is no resource, such as \"databases\": %w", s.plural, err)
	}
}

func (h *Hook) checkPolicies() {
	s := h.settings
	switch s.sideEffects {
	case "", admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun:
	default:
		h.mistakef("SideEffects(%q): the API server takes None and NoneOnDryRun only: "+
			"look at DryRun in the handler, and use NoneOnDryRun", s.sideEffects)
	}
	switch s.failure {
	case "", admissionregistrationv1.Fail, admissionregistrationv1.Ignore:
	default:
		h.mistakef("FailurePolicy(%q): use Fail or Ignore", s.failure)
	}
	switch s.reinvocation {
	case "", admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy:
	default:
		h.mistakef("ReinvocationPolicy(%q): use Never or IfNeeded", s.reinvocation)
	}
	if s.reinvocation != "" && h.kind == validating {
		h.mistakef("ReinvocationPolicy is for mutating handlers: leave it out, validating ones see the final object")
	}
}

func (h *Hook) checkSelectors() {
	s := h.settings
	if err := validation.Selector(&metav1.LabelSelector{MatchExpressions: s.labels}); err != nil {
		h.mistakef("Label or NoLabel can never match: %w", err)
	}
	if err := validation.Selector(s.namespaces.selector); err != nil {
		h.mistakef("NamespaceSelector: %w", err)
	}
	for _, name := range s.namespaces.names {
		if err := validation.DNSLabel(name); err != nil {
			h.mistakef("Namespaces: %q is no namespace: %w", name, err)
		}
	}
	if len(s.namespaces.names) > 0 && s.namespaces.every {
		h.mistakef("Namespaces and EveryNamespace exclude each other: leave one out")
	}
}

// maxConditions is what the API server takes for one webhook.
const maxConditions = 64

func (h *Hook) checkConditions() {
	names := map[string]bool{}
	for _, condition := range h.settings.conditions {
		if err := validation.QualifiedName(condition.Name); err != nil {
			h.mistakef("MatchConditions: the name %q cannot be one: %w", condition.Name, err)
		}
		if names[condition.Name] {
			h.mistakef("MatchConditions: two have the name %q: rename one", condition.Name)
		}
		names[condition.Name] = true
		if strings.TrimSpace(condition.Expression) == "" {
			h.mistakef("MatchConditions: %q has no expression: give it one such as \"object.spec.size > 10\"", condition.Name)
		}
	}
	if len(h.settings.conditions) > maxConditions {
		h.mistakef("MatchConditions has %d conditions: the API server takes %d: join some with &&",
			len(h.settings.conditions), maxConditions)
	}
}
