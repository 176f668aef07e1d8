package python

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

var recordTime = regexp.MustCompile(`(\\?"delayed\\?":\\?")(\d{4}-\d\d-\d\d)T([0-9:.]+)[^"\\]*`)

// damage changes a patch of the operator in Go.
func damage(patch []byte, kind string) ([]byte, error) {
	switch kind {
	case damageKey:
		return bytes.ReplaceAll(patch, []byte(`retries\":`), []byte(`attempts\":`)), nil
	case damageTime:
		return recordTime.ReplaceAll(patch, []byte(`$1$2 at $3`)), nil
	case damageFinalizer:
		if !bytes.Contains(patch, []byte(`purpose\":\"delete`)) {
			return patch, nil
		}
		var merge map[string]any
		if err := json.Unmarshal(patch, &merge); err != nil {
			return nil, err
		}
		if metadata, ok := merge["metadata"].(map[string]any); ok {
			metadata["finalizers"] = []string{}
		}
		return json.Marshal(merge)
	default:
		return nil, fmt.Errorf("unknown damage %q", kind)
	}
}
