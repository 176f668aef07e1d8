package patch

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// response is the object that the API server returned for a patch.
type response struct {
	sent    MergePatch
	object  client.Object
	content map[string]any // the JSON form of the object; nil until it is needed
}

// DroppedFields returns the sorted, dotted paths of those fields of part that the API server did not store. "[]" in a path stands for list
// items. Empty values are ignored, because API servers and clients may omit them.
func (c *Change) DroppedFields(part MergePatch) []string {
	var fields []string
	for i := range c.responses {
		if content, err := c.responseContent(i); err == nil {
			fields = append(fields, droppedFields(part, c.responses[i].sent, content)...)
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// RestoredFields returns the sorted, dotted paths of fields that part removes or sets to null, but that still have a value after the write
// because the API server has set their defaults.
func (c *Change) RestoredFields(part MergePatch) []string {
	return c.unremoved(part, func(value, current any, _ bool) bool { return isEmptyValue(value) && !isEmptyValue(current) })
}

// DroppedNulls returns the sorted, dotted paths of fields that part sets to null, but that don't exist after the write. It returns nothing
// for Go types, because they can't distinguish the two.
func (c *Change) DroppedNulls(part MergePatch) []string {
	if _, untyped := c.Before.(*unstructured.Unstructured); !untyped {
		return nil
	}
	return c.unremoved(part, func(value, _ any, exists bool) bool { return value == Null && !exists })
}

// unremoved returns the paths of fields outside the metadata that part removes or sets to null, if selects returns true for their values in
// the patch and after the write.
func (c *Change) unremoved(part MergePatch, selects func(value, current any, exists bool) bool) (fields []string) {
	var walk func(part, sent, stored map[string]any, path string)
	walk = func(part, sent, stored map[string]any, path string) {
		for key, value := range part {
			current, exists := stored[key]
			inner, isMap := value.(map[string]any)
			sentMap, _ := sent[key].(map[string]any)
			storedMap, _ := current.(map[string]any)
			switch {
			case isMap:
				walk(inner, sentMap, storedMap, path+key+".")
			case (value == nil || value == Null) && sent[key] == value && selects(value, current, exists):
				fields = append(fields, path+key)
			}
		}
	}
	part = part.WithoutField("metadata")
	for i := range c.responses {
		if content, err := c.responseContent(i); err == nil {
			walk(part, c.responses[i].sent, content, "")
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// ContentOf returns the change's result in its JSON form.
func (c *Change) ContentOf(written client.Object) (map[string]any, error) {
	for i := range c.responses {
		if c.responses[i].object == written {
			return c.responseContent(i)
		}
	}
	return Converted{c.Before, c.Content}.ContentOf(written)
}

// responseContent returns a response's object in its JSON form. It converts the object only once.
func (c *Change) responseContent(i int) (content map[string]any, err error) {
	r, known := &c.responses[i], c.Expected
	if known.Object == nil {
		known = Converted{c.Before, c.Content}
	}
	if i > 0 && c.responses[i-1].content != nil {
		known = Converted{c.responses[i-1].object, c.responses[i-1].content}
	}
	if r.content == nil {
		r.content, err = known.ContentOf(r.object)
	}
	return r.content, err
}

// droppedFields returns the paths of the part's fields that were sent but are missing from the stored content.
func droppedFields(part, sent, stored map[string]any) (paths []string) {
	for key, value := range part {
		current := stored[key]
		if isEmptyValue(value) || isEmptyValue(sent[key]) {
			continue
		}
		if current == nil {
			paths = append(paths, key)
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			sentMap, _ := sent[key].(map[string]any)
			if storedMap, ok := current.(map[string]any); ok {
				paths = appendBelow(paths, key+".", droppedFields(v, sentMap, storedMap))
			}
		case []any:
			items, _ := current.([]any)
			if len(items) != len(v) {
				continue
			}
			for i, item := range v {
				inner, _ := item.(map[string]any)
				if storedMap, ok := items[i].(map[string]any); ok {
					paths = appendBelow(paths, key+"[].", droppedFields(inner, inner, storedMap))
				}
			}
		}
	}
	return paths
}

func appendBelow(paths []string, prefix string, below []string) []string {
	for _, path := range below {
		paths = append(paths, prefix+path)
	}
	return paths
}

// isEmptyValue reports whether a value is null, an empty list, or a map of nothing but empty values.
func isEmptyValue(value any) bool {
	switch v := value.(type) {
	case nil, null:
		return true
	case map[string]any:
		for _, inner := range v {
			if !isEmptyValue(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

// HasValues reports whether the patch sets a field to a value that is not empty.
func (p MergePatch) HasValues() bool { return !isEmptyValue(map[string]any(p)) }
