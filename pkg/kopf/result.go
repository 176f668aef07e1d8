package kopf

import (
	stdjson "encoding/json"

	"k8s.io/apimachinery/pkg/util/json"
)

// jsonForm is the value as it will be on the object.
func jsonForm(value any) (any, error) {
	text, err := stdjson.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	return out, nil
}
