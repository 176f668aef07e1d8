package diff

// Lookup finds the value of a nested field, and tells whether there is one. As
// everywhere in this package, null is absence: it is reported as (nil, false),
// same as missing keys and keys of something other than a map. Without a path,
// it is about the value itself.
//
// The result aliases the value.
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
