package decoding

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// The maximum lengths of a fault's texts in bytes. They are needed because users choose the keys and values that errors quote.
const (
	maxFieldBytes = 256
	maxErrorBytes = 1024
)

// A Fault says why an object doesn't decode into its Go type.
type Fault struct {
	Field string // path of the field, such as "spec.replicas"; empty if it is unknown
	Err   error  // the decoder's error, shortened
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Field == "" {
		return f.Err.Error()
	}
	return f.Field + ": " + f.Err.Error()
}

// Unwrap returns the decoder's error.
func (f *Fault) Unwrap() error { return f.Err }

// Check decodes an object's JSON into a new object of its Go type, like client-go. It returns nil if this succeeds. If the Go type panics,
// that is a fault, too.
func Check(data []byte, newObject func() any) *Fault {
	_, fault := check(data, newObject)
	return fault
}

func check(data []byte, newObject func() any) (decoded any, fault *Fault) {
	decoded = newObject()
	err := decode(data, decoded)
	if err == nil {
		return decoded, nil
	}
	var content any
	parser := stdjson.NewDecoder(bytes.NewReader(data))
	parser.UseNumber() // keeps the text of numbers, which errors quote
	if parser.Decode(&content) != nil {
		return nil, newFault("", err) // not JSON
	}
	return nil, newFault(find(content, err, newObject), err)
}

func newFault(field string, err error) *Fault {
	return &Fault{Field: guard.ShortenText(field, maxFieldBytes), Err: errors.New(guard.ShortenText(err.Error(), maxErrorBytes))}
}

func decode(data []byte, into any) error {
	return guard.Catch("", func() error { return json.Unmarshal(data, into) })
}

// find returns the path of the field that causes an error. It descends into a field as long as an object with only this field fails in the
// same way, but an object in which the field is empty doesn't.
func find(content any, failure error, newObject func() any) (path string) {
	fails := func(content any) bool {
		data, err := stdjson.Marshal(content)
		if err != nil {
			return false
		}
		err = decode(data, newObject())
		return err != nil && err.Error() == failure.Error()
	}
	around := func(part any) any { return part } // returns the object that has only a part of the content
	for {
		outer, found := around, false
		switch value := content.(type) {
		case map[string]any:
			if fails(outer(map[string]any{})) {
				break
			}
			for _, key := range slices.Sorted(maps.Keys(value)) {
				if found = fails(outer(map[string]any{key: value[key]})); found {
					content, around = value[key], func(part any) any { return outer(map[string]any{key: part}) }
					path += "." + key
					break
				}
			}
		case []any:
			if fails(outer([]any{})) {
				break
			}
			for i, item := range value {
				if found = fails(outer([]any{item})); found {
					content, around = item, func(part any) any { return outer([]any{part}) }
					path += "[" + strconv.Itoa(i) + "]"
					break
				}
			}
		}
		if !found {
			if path != "" && path[0] == '.' {
				path = path[1:]
			}
			return path
		}
	}
}
