package essence

import "maps"

// Fold returns the essence with the changes of a JSON merge patch applied that was made for the
// whole object: what a handler changes itself is thereby part of what was handled (B-13).
// Neither argument is changed.
func Fold(essence, patch map[string]any, cleaners ...Cleaner) map[string]any {
	essential := Build(merge(essence, patch), cleaners...)
	return essential
}

// merge applies a merge patch (RFC 7386) without touching its arguments.
func merge(target, patch map[string]any) map[string]any {
	out := maps.Clone(target)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			inner, _ := out[key].(map[string]any)
			out[key] = merge(inner, v)
		default:
			out[key] = value
		}
	}
	return out
}
