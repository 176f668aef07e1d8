// Package essence computes the essence of an object: the fields whose changes count as updates. The stored text is compatible with kopf.
//
//	builder := essence.Builder{Cleaners: []essence.Cleaner{store, baseline}}
//	text, err := essence.Encode(builder.Build(content)) // the last-handled configuration
//	old, err := builder.Decode(text)
//
// [Builder.Build] computes the essence from an object's JSON form, [Encode] encodes it for storage, and [Builder.Decode] decodes it. If
// handlers depend on conditions, the essence has a separate field for their statuses. [DigestBaseline] stores a digest if an essence is too
// large.
//
// Objects must be decoded JSON: maps, slices, strings, booleans, int64, float64 and nil. An essence shares nested values with its object,
// so don't modify it.
package essence
