package diff

import "slices"

// Of tells how the old value became the new one. Maps are compared key by key,
// recursively; all other values as a whole, by [Equal]; so are values of
// different kinds, e.g. a map replaced by a string is one change.
//
// A nil old value and a non-nil new one give exactly one addition at the empty
// path, and vice versa for a removal; two nils give an empty diff.
//
// The items alias the given values, which stay unmodified.
func Of(old, new any) Diff {
	var c collector
	c.compare(old, new)
	return c.items
}

// collector accumulates the items of one comparison. The current path is one
// growing and shrinking stack, copied only for the items: equal branches, which
// are the most, cost no paths.
type collector struct {
	at    Path
	items Diff
}

func (c *collector) compare(old, new any) {
	hadValue, hasValue := !isNull(old), !isNull(new)
	switch {
	case !hadValue && !hasValue:
	case !hadValue:
		c.emit(Add, nil, new)
	case !hasValue:
		c.emit(Remove, old, nil)
	default:
		oldMap, oldOK := old.(map[string]any)
		newMap, newOK := new.(map[string]any)
		if oldOK && newOK {
			c.compareMaps(oldMap, newMap)
		} else if !Equal(old, new) {
			c.emit(Change, old, new)
		}
	}
}

func (c *collector) compareMaps(old, new map[string]any) {
	// A key counts by its value, never by its mere presence, so that nulls on
	// either side end up in the group of an absent key.
	var added, removed, common []string
	for key, value := range new {
		if !isNull(value) && isNull(old[key]) {
			added = append(added, key)
		}
	}
	for key, value := range old {
		switch {
		case isNull(value):
		case isNull(new[key]):
			removed = append(removed, key)
		default:
			common = append(common, key)
		}
	}

	for _, keys := range [...][]string{added, removed, common} {
		slices.Sort(keys)
		for _, key := range keys {
			c.at = append(c.at, key)
			c.compare(old[key], new[key])
			c.at = c.at[:len(c.at)-1]
		}
	}
}

func (c *collector) emit(op Op, old, new any) {
	// At the root the stack was never touched, so the copy is nil there, as
	// promised by Item.Path.
	c.items = append(c.items, Item{Op: op, Path: slices.Clone(c.at), Old: old, New: new})
}
