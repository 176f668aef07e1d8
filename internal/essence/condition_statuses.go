package essence

import "slices"

// ConditionsKey is the top-level field in which an essence keeps the statuses of conditions by type. Other fields of a condition don't
// count as changes.
const ConditionsKey = "kopf-runtime.dev/conditions"

// conditionStatuses returns the statuses of the selected conditions by type, from an object or an essence.
func (b Builder) conditionStatuses(content map[string]any) map[string]any {
	if len(b.Conditions) == 0 {
		return nil
	}
	out := b.conditionStatusesOf(content)
	if len(out) == 0 { // an essence contains only the statuses
		out, _ = content[ConditionsKey].(map[string]any)
	}
	return out
}

func (b Builder) conditionStatusesOf(content map[string]any) map[string]any {
	if b.FindConditionStatuses != nil {
		return b.FindConditionStatuses(content)
	}
	out := map[string]any{}
	add := func(conditionType, condition any) {
		name, _ := conditionType.(string)
		fields, _ := condition.(map[string]any)
		if status, ok := fields["status"].(string); ok && slices.Contains(b.Conditions, name) {
			out[name] = status
		}
	}
	status, _ := content["status"].(map[string]any)
	switch all := status["conditions"].(type) {
	case []any:
		for _, condition := range slices.Backward(all) { // if several conditions have the same type, the first one wins
			fields, _ := condition.(map[string]any)
			add(fields["type"], condition)
		}
	case map[string]any:
		for conditionType, condition := range all {
			add(conditionType, condition)
		}
	}
	return out
}
