package invoke

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// View is the state of an object that handlers receive. One view can be used for several attempts.
type View struct {
	// Object is copied for each attempt.
	Object client.Object
	Reason string
	Event  string
	// Old and Handled return copies for one attempt. They are optional.
	Old, Handled func() client.Object
	// OldUnknown is true if the object has a last-handled configuration that could not be stored.
	OldUnknown bool
	Diff       diff.Diff
	// Before and After are the JSON forms from which the values of the handler's field are read.
	Before, After    map[string]any
	ConditionOptions []conditions.Option
	Latest           func() client.Object
	Notify           func(about client.Object, eventType, reason, action, note string, args ...any)

	predicateRequest *Request
}

// NewRequest returns the request for one attempt of a handler.
func (v *View) NewRequest(id string, h Handler, attempt progress.Attempt) *Request {
	req := v.newRequest()
	req.ID, req.Attempt, req.ReceivesDiff, req.Latest, req.Notify = id, attempt, h.ReceivesDiff(v.Reason), v.Latest, v.Notify
	if h.Field != nil {
		req.Diff = slices.Clone(v.Diff).Reduce(h.Field.Path...)
		req.Field[0], _ = diff.Lookup(v.Before, h.Field.Path...)
		req.Field[1], _ = diff.Lookup(v.After, h.Field.Path...)
	}
	return req
}

// PredicateRequest returns the request that the predicates of all handlers share. The first call creates it.
func (v *View) PredicateRequest() *Request {
	if v.predicateRequest == nil {
		v.predicateRequest = v.newRequest()
	}
	return v.predicateRequest
}

func (v *View) newRequest() *Request {
	req := &Request{
		Object: v.Object.DeepCopyObject().(client.Object), OldKnown: !v.OldUnknown, Diff: withoutConditions(v.Diff), Reason: v.Reason, Event: v.Event,
		ConditionOptions: v.ConditionOptions,
	}
	if v.Old != nil {
		req.Old = v.Old()
	}
	if v.Handled != nil {
		req.Handled = v.Handled()
	}
	return req
}

// withoutConditions returns the diff without the transitions of conditions, because handlers receive only fields of the object.
func withoutConditions(d diff.Diff) diff.Diff {
	out := slices.DeleteFunc(slices.Clone(d), IsOfConditions)
	for i, item := range out {
		if whole, ok := item.New.(map[string]any); ok && len(item.Path) == 0 && whole[essence.ConditionsKey] != nil {
			whole = maps.Clone(whole)
			delete(whole, essence.ConditionsKey)
			out[i].New = whole
		}
	}
	return out
}

// IsOfConditions reports whether a difference is a transition of a condition.
func IsOfConditions(item diff.Item) bool {
	return len(item.Path) > 0 && item.Path[0] == essence.ConditionsKey
}
