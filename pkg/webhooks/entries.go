package webhooks

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reviewVersions are those of reviews that are understood.
var reviewVersions = []string{"v1", "v1beta1"}

// An entry is one webhook of a configuration. Mutating webhooks have all fields that validating ones have, and one
// more; all are set, also those with the API server's default, so that an entry can be compared with what is
// stored.
type entry = admissionregistrationv1.MutatingWebhook

// entryOf is how the API server is told of a hook.
func entryOf(o Options, n named, plural string, bundle []byte) entry {
	s := n.settings
	resource := plural
	if s.subresource != "" {
		resource += "/" + s.subresource
	}
	return entry{
		Name:         n.name + "." + domain(o.Name),
		ClientConfig: o.clientConfig(n.path, bundle),
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: n.operations(),
			Rule: admissionregistrationv1.Rule{
				APIGroups:   []string{n.gvk.Group},
				APIVersions: []string{n.gvk.Version},
				Resources:   []string{resource},
				Scope:       new(admissionregistrationv1.AllScopes),
			},
		}},
		FailurePolicy:           new(cmp.Or(s.failure, admissionregistrationv1.Fail)),
		MatchPolicy:             new(admissionregistrationv1.Equivalent),
		NamespaceSelector:       n.namespaceSelector(o),
		ObjectSelector:          &metav1.LabelSelector{MatchExpressions: s.labels},
		SideEffects:             new(cmp.Or(s.sideEffects, admissionregistrationv1.SideEffectClassNone)),
		TimeoutSeconds:          new(n.timeoutSeconds()),
		AdmissionReviewVersions: reviewVersions,
		ReinvocationPolicy:      new(cmp.Or(s.reinvocation, admissionregistrationv1.NeverReinvocationPolicy)),
		MatchConditions:         s.conditions,
	}
}

func (h Hook) timeoutSeconds() int32 { return cmp.Or(h.settings.timeout, DefaultTimeoutSeconds) }

// namespaceSelector is in terms of the label that each namespace has with its name.
func (h Hook) namespaceSelector(o Options) *metav1.LabelSelector {
	s := h.settings.namespaces
	selector := s.selector.DeepCopy()
	if selector == nil {
		selector = &metav1.LabelSelector{}
	}
	restrict := func(operator metav1.LabelSelectorOperator, names []string) {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
			Key: corev1.LabelMetadataName, Operator: operator, Values: names,
		})
	}
	switch {
	case len(s.names) > 0:
		restrict(metav1.LabelSelectorOpIn, s.names)
	case s.every:
	case len(o.Namespaces) > 0:
		restrict(metav1.LabelSelectorOpIn, o.Namespaces)
	case o.home != "" && o.home != kubeSystem:
		restrict(metav1.LabelSelectorOpNotIn, []string{kubeSystem, o.home})
	default:
		restrict(metav1.LabelSelectorOpNotIn, []string{kubeSystem})
	}
	return selector
}

// asValidating is the entry without what only mutating webhooks have.
func asValidating(e entry) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: e.Name, ClientConfig: e.ClientConfig, Rules: e.Rules, FailurePolicy: e.FailurePolicy,
		MatchPolicy: e.MatchPolicy, NamespaceSelector: e.NamespaceSelector, ObjectSelector: e.ObjectSelector,
		SideEffects: e.SideEffects, TimeoutSeconds: e.TimeoutSeconds,
		AdmissionReviewVersions: e.AdmissionReviewVersions, MatchConditions: e.MatchConditions,
	}
}

func fromValidating(w admissionregistrationv1.ValidatingWebhook) entry {
	return entry{
		Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
		MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector,
		SideEffects: w.SideEffects, TimeoutSeconds: w.TimeoutSeconds,
		AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions,
	}
}
