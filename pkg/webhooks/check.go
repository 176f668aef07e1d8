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

// Check returns all errors in the hook's declaration, joined. Each says how to fix it. [Server.Check] returns the errors of all hooks, the
// errors in the options, and conflicts between hooks.
func (h Hook) Check() error {
	h.errs = slices.Clone(h.errs)
	h.checkID()
	h.checkRule()
	h.checkPolicies()
	h.checkSelectors()
	h.checkConditions()
	h.checkRequirements()
	for i, err := range h.errs {
		h.errs[i] = fmt.Errorf("%s: %w", h.describe(), err)
	}
	return errors.Join(h.errs...)
}

func (h *Hook) checkID() {
	if h.id == "" {
		h.addErrorf("the id is empty: set one")
		return
	}
	for segment := range strings.SplitSeq(h.id, "/") {
		if segment == "" || segment == "." || segment == ".." {
			h.addErrorf("the id is not a valid path: remove empty parts, %q and %q", ".", "..")
			return
		}
	}
}

func (h *Hook) checkRule() {
	s := h.settings
	if s.operationsSet && len(s.operations) == 0 {
		h.addErrorf("Operations is empty: list operations or remove the option")
	}
	known := []admissionregistrationv1.OperationType{
		admissionregistrationv1.OperationAll, admissionregistrationv1.Create, admissionregistrationv1.Update,
		admissionregistrationv1.Delete, admissionregistrationv1.Connect,
	}
	for i, operation := range s.operations {
		switch {
		case !slices.Contains(known, operation):
			h.addErrorf("Operations contains the unknown operation %q: use CREATE, UPDATE, DELETE, CONNECT or *", operation)
		case slices.Contains(s.operations[:i], operation):
			h.addErrorf("Operations contains %s twice: remove one", operation)
		case operation == admissionregistrationv1.OperationAll && len(s.operations) > 1:
			h.addErrorf("Operations contains * and others: remove the others")
		}
	}
	if s.subresource != "" && s.subresource != "*" && validation.DNSLabel(s.subresource) != nil {
		h.addErrorf("Subresource(%q) is invalid: use a name such as \"status\", without the resource, or \"*\"", s.subresource)
	}
	if err := validation.DNSLabel(s.plural); s.plural != "" && err != nil {
		h.addErrorf("Plural(%q) is invalid: use the name of the resource, such as \"databases\": %w", s.plural, err)
	}
}

func (h *Hook) checkPolicies() {
	s := h.settings
	switch s.sideEffects {
	case "", admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.SideEffectClassNoneOnDryRun:
	default:
		h.addErrorf("SideEffects(%q): the API server accepts only None and NoneOnDryRun: "+
			"check DryRun in the handler and use NoneOnDryRun", s.sideEffects)
	}
	switch s.failure {
	case "", admissionregistrationv1.Fail, admissionregistrationv1.Ignore:
	default:
		h.addErrorf("FailurePolicy(%q): use Fail or Ignore", s.failure)
	}
	switch s.reinvocation {
	case "", admissionregistrationv1.NeverReinvocationPolicy, admissionregistrationv1.IfNeededReinvocationPolicy:
	default:
		h.addErrorf("ReinvocationPolicy(%q): use Never or IfNeeded", s.reinvocation)
	}
	if s.reinvocation != "" && h.kind == validating {
		h.addErrorf("ReinvocationPolicy is only for mutating handlers: remove it, because validating handlers receive the final object")
	}
}

func (h *Hook) checkSelectors() {
	s := h.settings
	if err := validation.Selector(&metav1.LabelSelector{MatchExpressions: s.labels}); err != nil {
		h.addErrorf("Label or NoLabel can never match: %w", err)
	}
	if err := validation.Selector(s.namespaces.selector); err != nil {
		h.addErrorf("NamespaceSelector: %w", err)
	}
	for _, name := range s.namespaces.names {
		if err := validation.DNSLabel(name); err != nil {
			h.addErrorf("Namespaces: the namespace %q is invalid: %w", name, err)
		}
	}
	if len(s.namespaces.names) > 0 && s.namespaces.all {
		h.addErrorf("Namespaces and EveryNamespace are mutually exclusive: remove one of them")
	}
}

// maxMatchConditions is how many match conditions the API server accepts for one webhook.
const maxMatchConditions = 64

func (h *Hook) checkConditions() {
	names := map[string]bool{}
	for _, condition := range h.settings.conditions {
		if err := validation.QualifiedName(condition.Name); err != nil {
			h.addErrorf("MatchConditions: the name %q is invalid: %w", condition.Name, err)
		}
		if names[condition.Name] {
			h.addErrorf("MatchConditions: two conditions have the name %q: rename one of them", condition.Name)
		}
		names[condition.Name] = true
		if strings.TrimSpace(condition.Expression) == "" {
			h.addErrorf("MatchConditions: %q has no expression: set one such as \"object.spec.size > 10\"", condition.Name)
		}
	}
	if len(h.settings.conditions) > maxMatchConditions {
		h.addErrorf("MatchConditions has %d conditions, and the API server accepts %d: join some with &&",
			len(h.settings.conditions), maxMatchConditions)
	}
}
