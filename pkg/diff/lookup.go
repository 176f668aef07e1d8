package diff

// Lookup returns the value of a nested field, and whether the field exists. It returns (nil, false) for null, for a missing key, and for a
// key of a value that isn't a map. Without a path, it returns the value itself. The result isn't a copy.
func Lookup(value any, path ...string) (any, bool) {
	for _, key := range path {
		// A failed assertion leaves a nil map, which has no keys.
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	if isNull(value) {
		return nil, false
	}
	return value, true
}
