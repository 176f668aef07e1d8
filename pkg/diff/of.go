package diff

import "slices"

// Of returns the differences from the old to the new value. Maps are compared key by key, recursively. All other values are compared as a
// whole with [Equal]. Replacing a value with one of a different type is a single change.
//
// If only one of the values is nil, the result is one addition or removal with an empty path. If both are nil, the result is empty. The
// items share memory with the given values.
func Of(old, new any) Diff {
	var c collector
	c.compare(old, new)
	return c.items
}

// A collector accumulates the items of one comparison. The current path is a stack that is copied only for items, so equal branches don't
// allocate paths.
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
	// A key with the value null is absent.
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
	// At the root, the stack is nil, so the copy is nil too, as documented for Item.Path.
	c.items = append(c.items, Item{Op: op, Path: slices.Clone(c.at), Old: old, New: new})
}
