package patch

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An answer is the object that the server returned for a patch.
type answer struct {
	sent    Document
	object  client.Object
	content map[string]any // the JSON form of the object, made when it is needed
}

// Dropped returns the fields of a part of the change that the server did not store, by dotted paths in order. An item of a list is "[]".
// Empty values are no fields: servers and clients may leave them out.
func (c *Change) Dropped(part Document) []string {
	var fields []string
	for i := range c.answers {
		a := &c.answers[i]
		if a.content == nil {
			var err error
			if a.content, err = Content(a.object); err != nil {
				continue
			}
		}
		fields = append(fields, dropped(part, a.sent, a.content, "")...)
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// dropped looks for the values of a part, as far as they were sent, in the stored content.
func dropped(part, sent, stored map[string]any, prefix string) (fields []string) {
	for _, key := range slices.Sorted(maps.Keys(part)) {
		value, at := part[key], prefix+key
		if isBlank(value) || isBlank(sent[key]) {
			continue
		}
		is := stored[key]
		if is == nil {
			fields = append(fields, at)
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			sentMap, _ := sent[key].(map[string]any)
			isMap, ok := is.(map[string]any)
			if ok {
				fields = append(fields, dropped(v, sentMap, isMap, at+".")...)
			}
		case []any:
			items, _ := is.([]any)
			if len(items) != len(v) {
				continue
			}
			for i, item := range v {
				inner, _ := item.(map[string]any)
				isMap, ok := items[i].(map[string]any)
				if ok {
					fields = append(fields, dropped(inner, inner, isMap, at+"[].")...)
				}
			}
		}
	}
	return fields
}

// isBlank reports whether a patch sets nothing by a value.
func isBlank(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, inner := range v {
			if !isBlank(inner) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return false
}

// HasValues reports whether a document sets anything but blank values.
func (d Document) HasValues() bool { return !isBlank(map[string]any(d)) }
