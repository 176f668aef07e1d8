package progress

import "github.com/kopf-runtime/kopf-runtime/internal/jsonform"

// EncodeJSON encodes a value like kopf: compact, with sorted keys, and in ASCII, so that any tool preserves the text. The characters < > & are
// not escaped.
func EncodeJSON(value any) ([]byte, error) { return jsonform.EncodeASCII(value) }
