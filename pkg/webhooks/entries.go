package webhooks

import (
	"cmp"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reviewVersions are the supported versions of admission reviews.
var reviewVersions = []string{"v1", "v1beta1"}

// entry is one webhook of a validating or a mutating configuration. Mutating webhooks have all fields of validating ones and the
// reinvocationPolicy. newEntry sets all fields, including those that the API server defaults, so that an entry can be compared with the
// stored one.
type entry = admissionregistrationv1.MutatingWebhook

// newEntry returns the entry for a hook.
func newEntry(o Options, n namedHook, plural string, bundle []byte) entry {
	s := n.settings
	resource := plural
	if s.subresource != "" {
		resource += "/" + s.subresource
	}
	return entry{
		Name:         n.name + "." + nameSuffix(o.Name),
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

// namespaceSelector returns the selector for the hook's namespaces. It uses the label with the namespace's name that the API server adds to
// each namespace.
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
	case s.all:
	case len(o.Namespaces) > 0:
		restrict(metav1.LabelSelectorOpIn, o.Namespaces)
	case o.podNamespace != "" && o.podNamespace != kubeSystem:
		restrict(metav1.LabelSelectorOpNotIn, []string{kubeSystem, o.podNamespace})
	default:
		restrict(metav1.LabelSelectorOpNotIn, []string{kubeSystem})
	}
	return selector
}

// asValidating converts an entry to a validating webhook.
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
