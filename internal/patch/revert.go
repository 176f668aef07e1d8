package patch

import (
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// StatusPart returns the part of the patch that belongs to the status subresource.
func (p MergePatch) StatusPart() MergePatch {
	_, status := p.splitStatus()
	return status
}

// Revert returns a patch that undoes this one. base is the content before this patch, and content is the current one. A field is only
// restored if it still has this patch's value, and so is each condition in a list of conditions, so other clients' changes remain. Fields
// missing from both base and content are removed too, because the kind's Go type may lack them.
func (p MergePatch) Revert(base, content map[string]any) MergePatch {
	return p.revert(base, content, false)
}

func (p MergePatch) revert(base, content map[string]any, within bool) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		current := content[key]
		old, had := base[key]
		inner, isMap := value.(map[string]any)
		currentMap, currentIsMap := current.(map[string]any)
		switch {
		case isMap && (currentIsMap || current == nil):
			before, _ := old.(map[string]any)
			reverted := MergePatch(inner).revert(before, currentMap, true)
			if within && currentIsMap && old == nil && len(reverted.Apply(currentMap)) == 0 {
				out[key] = nil // this patch created the map, which is now empty
			} else {
				out[key] = map[string]any(reverted)
			}
		case diff.Equal(valueOf(value), current), old == nil && current == nil:
			if out[key] = old; had {
				out[key] = withNulls(old)
			}
		case value != nil && current != nil && areConditionLists(key, old, value, current):
			out[key] = revertConditions(asList(old), asList(value), asList(current))
		}
	}
	return out
}

// RemovalsOfAbsentFields returns the part of the patch that removes fields missing from the content.
func (p MergePatch) RemovalsOfAbsentFields(content map[string]any) MergePatch {
	out := MergePatch{}
	for key, value := range p {
		current, had := content[key]
		inner, isMap := value.(map[string]any)
		currentMap, currentIsMap := current.(map[string]any)
		switch {
		case value == nil && !had:
			out[key] = nil
		case isMap && (currentIsMap || !had):
			if removals := MergePatch(inner).RemovalsOfAbsentFields(currentMap); len(removals) > 0 {
				out[key] = map[string]any(removals)
			}
		}
	}
	return out
}

func revertConditions(old, patched, current []any) any {
	var out []any
	inOld, inPatched, inCurrent := positions(old), positions(patched), positions(current)
	for _, item := range current {
		i, isPatched := inPatched[typeOf(item)]
		before, existed := inOld[typeOf(item)]
		switch {
		case !isPatched || !diff.Equal(patched[i], item):
			out = append(out, item)
		case existed:
			out = append(out, old[before])
		}
	}
	for _, item := range old {
		_, isPatched := inPatched[typeOf(item)]
		if _, exists := inCurrent[typeOf(item)]; !isPatched && !exists {
			out = append(out, item)
		}
	}
	if out == nil && old == nil {
		return nil
	}
	return out
}

func asList(value any) []any {
	list, _ := value.([]any)
	return list
}
