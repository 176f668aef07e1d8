package kopf

import (
	stdjson "encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/json"
)

// jsonForm is the value as it will be on the object.
func jsonForm(value any) (any, error) {
	text, err := stdjson.Marshal(value)
	if err != nil {
		return nil, Permanent(fmt.Errorf("the result has no JSON form: %w", err))
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, Permanent(fmt.Errorf("the result has no JSON form: %w", err))
	}
	return out, nil
}
