package webhooks

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultTimeoutSeconds is how long the API server waits for a handler unless [TimeoutSeconds] says otherwise.
const DefaultTimeoutSeconds = 10

// An Option of one handler. Most of them end up in the webhook configuration: it is the API server that
// does not call the handler where they do not match.
type Option func(*Hook)

type settings struct {
	operations    []admissionregistrationv1.OperationType
	operationsSet bool
	subresource   string
	plural        string
	labels        []metav1.LabelSelectorRequirement
	conditions    []admissionregistrationv1.MatchCondition
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
	every    bool
}

// Operations are what the handler is called for: admissionregistrationv1.Create, Update, Delete, Connect,
// OperationAll. Default: all for validating handlers; for mutating ones Create and Update, as there is
// nothing to change in what is deleted.
//
// kopf: operations=.
func Operations(operations ...admissionregistrationv1.OperationType) Option {
	return func(h *Hook) {
		h.settings.operations, h.settings.operationsSet = slices.Clone(operations), true
	}
}

// Subresource calls the handler for that subresource instead of the object itself, such as "status"; "*" is
// the object and all its subresources. Subresources that are of kinds of their own, such as "scale" of a
// deployment or "exec" of a pod, need an unstructured object: declare it with the kind that they belong
// to. Default: the object itself.
//
// kopf: subresource=.
func Subresource(name string) Option {
	return func(h *Hook) {
		h.settings.subresource = name
		if name == "" {
			h.mistakef("Subresource is empty: leave it out for the object itself")
		}
	}
}

// Plural is the resource's name in URLs, such as "databases". Default: what the API server says of the
// kind. With it, the handler is called from the first object of a kind on, also if its CRD is created later.
func Plural(name string) Option {
	return func(h *Hook) { h.settings.plural = name }
}

// Label calls the handler only for objects with the label; with values, only if it has one of them. The API server
// is asked for that, and calls also if only the old object has it; the handler is called only for the
// new one, or the one that is deleted. Several labels must all match.
//
// kopf: labels=, with PRESENT or a literal. Other tests of labels: [MatchConditions].
func Label(key string, values ...string) Option {
	return func(h *Hook) {
		requirement := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
		if len(values) > 0 {
			requirement.Operator, requirement.Values = metav1.LabelSelectorOpIn, slices.Clone(values)
		}
		h.settings.labels = append(h.settings.labels, requirement)
	}
}

// NoLabel calls the handler only for objects without the label. See [Label].
//
// kopf: labels=, with ABSENT.
func NoLabel(key string) Option {
	return func(h *Hook) {
		h.settings.labels = append(h.settings.labels,
			metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist})
	}
}

// MatchConditions are expressions in CEL that must all be true for the handler to be called, such as
// {Name: "big", Expression: "object.spec.size > 10"}. The API server evaluates them, without a call.
//
// kopf: none; what can be said in CEL of field=, value=, annotations= and when=.
func MatchConditions(conditions ...admissionregistrationv1.MatchCondition) Option {
	return func(h *Hook) { h.settings.conditions = append(h.settings.conditions, conditions...) }
}

// SideEffects tells whether the handler does anything besides answering:
// admissionregistrationv1.SideEffectClassNone (default), or SideEffectClassNoneOnDryRun if it does, but
// looks at [Call].DryRun before.
//
// kopf: side_effects=True is NoneOnDryRun.
func SideEffects(class admissionregistrationv1.SideEffectClass) Option {
	return func(h *Hook) { h.settings.sideEffects = class }
}

// FailurePolicy tells what becomes of requests when there is no answer, because the operator is down, too slow,
// or not trusted: admissionregistrationv1.Fail denies them (default), Ignore lets them through. A handler
// that fails has answered: its request is denied either way.
//
// kopf: ignore_failures=True is Ignore.
func FailurePolicy(policy admissionregistrationv1.FailurePolicyType) Option {
	return func(h *Hook) { h.settings.failure = policy }
}

// TimeoutSeconds is how long the API server waits for an answer, from 1 to 30; the handler's context ends then.
// Default: [DefaultTimeoutSeconds]. kopf: always 30.
func TimeoutSeconds(seconds int32) Option {
	return func(h *Hook) {
		h.settings.timeout = seconds
		if seconds < 1 || seconds > 30 {
			h.mistakef("TimeoutSeconds is %d: the API server takes 1 to 30", seconds)
		}
	}
}

// ReinvocationPolicy of a mutating handler: admissionregistrationv1.IfNeededReinvocationPolicy calls it again
// if others have changed the object after it. Default: NeverReinvocationPolicy. kopf: none.
func ReinvocationPolicy(policy admissionregistrationv1.ReinvocationPolicyType) Option {
	return func(h *Hook) { h.settings.reinvocation = policy }
}

// Namespaces are the only ones for whose objects the handler is called, also if they are among
// those that are excluded by default. Default: those of [Options], or all but kube-system and the operator's own.
func Namespaces(names ...string) Option {
	return func(h *Hook) {
		if len(names) == 0 {
			h.mistakef("Namespaces without any names would never match: leave it out for all of them")
		}
		h.settings.namespaces.names = append(h.settings.namespaces.names, names...)
	}
}

// NamespaceSelector restricts the handler to objects in namespaces with such labels; those that are excluded by
// default stay excluded, unless there is [EveryNamespace], too.
func NamespaceSelector(selector *metav1.LabelSelector) Option {
	return func(h *Hook) { h.settings.namespaces.selector = selector }
}

// EveryNamespace calls the handler also for objects in kube-system and in the operator's own namespace.
// Mind that a handler with the policy Fail can then prevent its own operator from being started.
func EveryNamespace() Option {
	return func(h *Hook) { h.settings.namespaces.every = true }
}

// Persistent leaves the handler in the configuration when the operator ends and removes the others
// ([RemoveOnExit]). kopf: persistent=True.
func Persistent() Option {
	return func(h *Hook) { h.settings.persistent = true }
}

// operations as they are for the API server.
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
