package webhooks

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultTimeoutSeconds is the default of [TimeoutSeconds].
const DefaultTimeoutSeconds = 10

// Option configures one handler. Most options become part of the webhook configuration, so the API server evaluates them and calls only
// matching hooks. The webhook server evaluates [Annotation], [NoAnnotation], [Field], [FieldChanged] and [When].
type Option func(*Hook)

type settings struct {
	operations    []admissionregistrationv1.OperationType
	operationsSet bool
	subresource   string
	plural        string
	labels        []metav1.LabelSelectorRequirement
	conditions    []admissionregistrationv1.MatchCondition
	filters       []requestFilter
	requirements  []requirement
	sideEffects   admissionregistrationv1.SideEffectClass
	failure       admissionregistrationv1.FailurePolicyType
	timeout       int32
	reinvocation  admissionregistrationv1.ReinvocationPolicyType
	namespaces    namespaceSettings
	persistent    bool
}

type namespaceSettings struct {
	names    []string
	selector *metav1.LabelSelector
	all      bool
}

// Operations sets the operations for which the handler is called: admissionregistrationv1.Create, Update, Delete, Connect or OperationAll.
// Default: all operations for validating handlers; Create and Update for mutating handlers, because a deletion can't change the object.
//
// Equivalent in kopf: operations=.
func Operations(operations ...admissionregistrationv1.OperationType) Option {
	return func(h *Hook) {
		h.settings.operations, h.settings.operationsSet = slices.Clone(operations), true
	}
}

// Subresource calls the handler for a subresource, such as "status", instead of the object itself. The value "*" selects the object and all
// its subresources. Subresources with their own kind, such as "scale" of a Deployment or "exec" of a Pod, need an unstructured object with
// the kind of the parent. Default: the object itself.
//
// Equivalent in kopf: subresource=.
func Subresource(name string) Option {
	return func(h *Hook) {
		h.settings.subresource = name
		if name == "" {
			h.addErrorf("Subresource is empty: remove it to select the object itself")
		}
	}
}

// Plural sets the name of the resource in URLs, such as "databases". Default: the name that the API server returns for the kind. With
// Plural, the server can write the entry before the CRD exists, so the first objects of the CRD are reviewed, too.
func Plural(name string) Option {
	return func(h *Hook) { h.settings.plural = name }
}

// Label calls the handler only for objects with the label. If values are given, the label must have one of them. Several labels must all
// match. The API server calls the webhook even if only the old object has the label. The webhook server then allows the request without
// calling the handler, unless the new or the deleted object matches.
//
// Equivalent in kopf: labels=, with PRESENT or a literal. For other tests of labels, use [MatchConditions].
func Label(key string, values ...string) Option {
	return func(h *Hook) {
		selector := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
		if len(values) > 0 {
			selector.Operator, selector.Values = metav1.LabelSelectorOpIn, slices.Clone(values)
		}
		h.settings.labels = append(h.settings.labels, selector)
		h.require(requirement{option: option("Label", key, values), subject: "label " + key, values: toAny(values)})
	}
}

// NoLabel calls the handler only for objects without the label. See [Label].
//
// Equivalent in kopf: labels=, with ABSENT.
func NoLabel(key string) Option {
	return func(h *Hook) {
		h.settings.labels = append(h.settings.labels,
			metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist})
		h.require(requirement{option: option[string]("NoLabel", key, nil), subject: "label " + key, absent: true})
	}
}

// MatchConditions adds CEL expressions that must all be true for the handler to be called, such as {Name: "big", Expression:
// "object.spec.size > 10"}. The API server evaluates them before it calls the webhook. An expression can often replace [Annotation],
// [Field] or [When], and saves the request to the webhook server.
//
// kopf has no equivalent.
func MatchConditions(conditions ...admissionregistrationv1.MatchCondition) Option {
	return func(h *Hook) { h.settings.conditions = append(h.settings.conditions, conditions...) }
}

// SideEffects declares whether the handler has side effects: admissionregistrationv1.SideEffectClassNone (default), or
// SideEffectClassNoneOnDryRun if it has side effects but checks [Call].DryRun.
//
// Equivalent in kopf: side_effects=True is NoneOnDryRun.
func SideEffects(class admissionregistrationv1.SideEffectClass) Option {
	return func(h *Hook) { h.settings.sideEffects = class }
}

// FailurePolicy sets what happens if a webhook call fails because the operator is down, too slow or not trusted.
// admissionregistrationv1.Fail (default) denies the request, and Ignore allows it. An error of the handler is a valid response of the
// webhook, so it denies the request with either policy.
//
// Equivalent in kopf: ignore_failures=True is Ignore.
func FailurePolicy(policy admissionregistrationv1.FailurePolicyType) Option {
	return func(h *Hook) { h.settings.failure = policy }
}

// TimeoutSeconds sets how long the API server waits for a response, from 1 to 30 seconds. The handler's context is cancelled after the same
// time. Default: [DefaultTimeoutSeconds]. kopf always uses 30 seconds.
func TimeoutSeconds(seconds int32) Option {
	return func(h *Hook) {
		h.settings.timeout = seconds
		if seconds < 1 || seconds > 30 {
			h.addErrorf("TimeoutSeconds must be from 1 to 30, got %d", seconds)
		}
	}
}

// ReinvocationPolicy sets the policy of a mutating handler. With admissionregistrationv1.IfNeededReinvocationPolicy, the API server calls
// the handler again if a later webhook changes the object. Default: NeverReinvocationPolicy. kopf has no equivalent.
func ReinvocationPolicy(policy admissionregistrationv1.ReinvocationPolicyType) Option {
	return func(h *Hook) { h.settings.reinvocation = policy }
}

// Namespaces limits the handler to objects in these namespaces, even if they are excluded by default. Default: the Namespaces of [Options].
func Namespaces(names ...string) Option {
	return func(h *Hook) {
		if len(names) == 0 {
			h.addErrorf("Namespaces is empty and would never match: remove it to select all namespaces")
		}
		h.settings.namespaces.names = append(h.settings.namespaces.names, names...)
	}
}

// NamespaceSelector limits the handler to objects in namespaces with matching labels. The Namespaces of [Options] and their default also
// apply, unless the hook has [Namespaces] or [EveryNamespace].
func NamespaceSelector(selector *metav1.LabelSelector) Option {
	return func(h *Hook) { h.settings.namespaces.selector = selector }
}

// EveryNamespace calls the handler for objects in all namespaces, including kube-system and the operator's own namespace. The Namespaces of
// [Options] don't apply. A handler with the failure policy Fail can then prevent its own operator from starting.
func EveryNamespace() Option {
	return func(h *Hook) { h.settings.namespaces.all = true }
}

// Persistent keeps the handler's entry in the configuration when the operator shuts down with [RemoveOnExit].
// Equivalent in kopf: persistent=True.
func Persistent() Option {
	return func(h *Hook) { h.settings.persistent = true }
}

// operations returns the operations of the hook, or the default operations of its kind.
func (h Hook) operations() []admissionregistrationv1.OperationType {
	switch {
	case h.settings.operationsSet:
		return h.settings.operations
	case h.kind == mutating:
		return []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
	default:
		return []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
	}
}
