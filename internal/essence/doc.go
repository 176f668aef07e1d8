// Package essence reduces objects to what counts as a change: which fields count?
//
// # Flow
//
// [Shape.Build] makes the essence of an object's JSON form, [Encode] the text that the baseline keeps,
// [Shape.Decode] reads it back. What conditions say is a stanza of its own, for those kinds whose handlers ask for it.
//
// # Guarantees
//
// Calculations only: no context, no client, nothing written into the arguments. The text is
// wire-compatible with kopf (rows ESS and KEY-22 of its behaviour).
//
// # Assumptions
//
// Objects come as decoded JSON: maps, slices, strings, booleans, int64, float64, nil.
//
// # Caveats
//
// An essence shares its deeper values with the object it was built from: read it, do not change it.
//
// # Errors
//
// [Shape.Decode] fails for a text that is not a JSON object.
package essence
