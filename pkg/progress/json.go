package progress

import "github.com/kopf-runtime/kopf-runtime/internal/jsonform"

// EncodeJSON encodes a value as kopf does: compact, with sorted keys, and in ASCII, so that any tool preserves the text. It doesn't escape
// < > &.
func EncodeJSON(value any) ([]byte, error) { return jsonform.EncodeASCII(value) }
