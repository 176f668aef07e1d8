package essence

import "slices"

// ConditionsKey is a stanza that only essences have: what conditions said, by their types. Everything else in a
// condition changes without being news.
const ConditionsKey = "kopf-runtime.dev/conditions"

// statuses are those of the conditions that matter, be they a list or a map.
func (s Builder) conditionStatuses(content map[string]any) map[string]any {
	if len(s.Conditions) == 0 {
		return nil
	}
	out := s.conditionStatusesOf(content)
	if len(out) == 0 { // that of an essence, which has no status
		out, _ = content[ConditionsKey].(map[string]any)
	}
	return out
}

func (s Builder) conditionStatusesOf(content map[string]any) map[string]any {
	if s.FindConditionStatuses != nil {
		return s.FindConditionStatuses(content)
	}
	out := map[string]any{}
	note := func(kind, condition any) {
		name, _ := kind.(string)
		fields, _ := condition.(map[string]any)
		if status, ok := fields["status"].(string); ok && slices.Contains(s.Conditions, name) {
			out[name] = status
		}
	}
	status, _ := content["status"].(map[string]any)
	switch all := status["conditions"].(type) {
	case []any:
		for _, one := range slices.Backward(all) { // of several of one type the first counts
			fields, _ := one.(map[string]any)
			note(fields["type"], one)
		}
	case map[string]any:
		for kind, one := range all {
			note(kind, one)
		}
	}
	return out
}
