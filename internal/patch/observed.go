package patch

import (
	"maps"
	"slices"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// observedGeneration is the name of fields that say which generation a status describes.
const observedGeneration = "observedGeneration"

// Generations are an object's generations From, ..., To-1. If From equals To, it is empty.
type Generations struct{ From, To int64 }

// IsEmpty reports whether there are no generations.
func (g Generations) IsEmpty() bool { return g.From >= g.To }

// Contains reports whether a value is one of the generations.
func (g Generations) Contains(value any) bool {
	generation, ok := value.(int64)
	return ok && g.From <= generation && generation < g.To
}

// Extend returns the generations together with later ones, or only the later ones if they aren't adjacent.
func (g Generations) Extend(later Generations) Generations {
	if !g.IsEmpty() && g.To == later.From {
		later.From = g.From
	}
	return later
}

// Observation is a place in the status where a patch sets an observed generation.
type Observation struct {
	// Path is the path of the field, or of a list if Item is set.
	Path []string
	// Item is the list item that contains the field.
	Item map[string]any
}

// Key returns the field with which an observation's item is found again, which is its type or name, and its value. name is "" if the item
// has neither.
func (o Observation) Key() (name, value string) {
	for _, name := range []string{"type", "name"} {
		if value, ok := o.Item[name].(string); ok {
			return name, value
		}
	}
	return "", ""
}

// IsPermanent reports whether the observation identifies the same place even in other states, and in other objects of the kind.
func (o Observation) IsPermanent() bool {
	name, _ := o.Key()
	return o.Item == nil || name != ""
}

// WithoutValues returns the observation with its item reduced to the key.
func (o Observation) WithoutValues() Observation {
	if name, value := o.Key(); name != "" {
		o.Item = map[string]any{name: value}
	}
	return o
}

// isAt reports whether a list item is the observation's item.
func (o Observation) isAt(item any) bool {
	fields, isMap := item.(map[string]any)
	if name, value := o.Key(); name != "" {
		return isMap && fields[name] == value
	}
	return diff.Equal(o.Item, item)
}

// Observations returns the places in the status where the patch sets an observed generation. base is the content before the patch. List
// items that are already in it are ignored, because they belong to other clients or have not changed.
func (p MergePatch) Observations(base map[string]any) (found []Observation) {
	var walk func(doc, base map[string]any, path []string)
	walk = func(doc, base map[string]any, path []string) {
		for key, value := range doc {
			here := append(slices.Clip(path), key)
			switch v := value.(type) {
			case map[string]any:
				inner, _ := base[key].(map[string]any)
				walk(v, inner, here)
			case []any:
				old, _ := base[key].([]any)
				for _, item := range subtractItems(v, old) {
					if fields, ok := item.(map[string]any); ok && hasObserved(fields) {
						found = append(found, Observation{Path: here, Item: fields})
					}
				}
			case int64:
				if key == observedGeneration {
					found = append(found, Observation{Path: here})
				}
			}
		}
	}
	if status, ok := p["status"].(map[string]any); ok {
		before, _ := base["status"].(map[string]any)
		walk(status, before, []string{"status"})
	}
	return found
}

// hasObserved reports whether a value contains an observed generation.
func hasObserved(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		if _, ok := v[observedGeneration].(int64); ok {
			return true
		}
		for _, inner := range v {
			if hasObserved(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasObserved)
	}
	return false
}

// RaiseObserved returns a patch that replaces the given generations with the next one at the given places.
func RaiseObserved(content map[string]any, places []Observation, of Generations) MergePatch {
	doc := MergePatch{}
	for _, o := range places {
		current, _ := diff.Lookup(content, o.Path...)
		if o.Item == nil {
			if of.Contains(current) {
				doc = Merge(doc, At(o.Path, of.To))
			}
			continue
		}
		if raised, ok := diff.Lookup(map[string]any(doc), o.Path...); ok {
			current = raised
		}
		list, _ := current.([]any)
		for i, item := range list {
			if raised, changed := raiseWithin(item, of); changed && o.isAt(item) {
				list = slices.Clone(list)
				list[i] = raised
				doc = Merge(doc, At(o.Path, list))
			}
		}
	}
	return doc
}

// raiseWithin raises the given generations in a value. If it changes something, it returns a copy.
func raiseWithin(value any, of Generations) (raised any, changed bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			next, differs := raiseWithin(inner, of)
			if key == observedGeneration && of.Contains(inner) {
				next, differs = of.To, true
			}
			if !differs {
				continue
			}
			if !changed {
				v, changed = maps.Clone(v), true
			}
			v[key] = next
		}
		return v, changed
	case []any:
		for i, inner := range v {
			if next, differs := raiseWithin(inner, of); differs {
				if !changed {
					v, changed = slices.Clone(v), true
				}
				v[i] = next
			}
		}
		return v, changed
	}
	return value, false
}

// ChangesSpec reports whether the patch changes anything other than metadata and status. For most kinds, only such changes raise the
// generation.
func (p MergePatch) ChangesSpec() bool {
	for key := range p {
		if key != "metadata" && key != "status" {
			return true
		}
	}
	return false
}
