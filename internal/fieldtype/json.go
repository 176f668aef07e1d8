package fieldtype

import (
	"encoding/json"
	"math"
	"strconv"
)

// JSON is a JSON type. Its text includes the article, so messages can use it as it is.
type JSON string

// The types of JSON values.
const (
	Any     JSON = ""
	String  JSON = "a string"
	Integer JSON = "an integer"
	Number  JSON = "a number"
	Boolean JSON = "a boolean"
	List    JSON = "a list"
	Object  JSON = "an object"
)

// Accepts reports whether a field of this JSON type can have the value. It returns true for nil, and for Go types that never occur in
// decoded JSON.
func (t JSON) Accepts(value any) bool {
	switch value := value.(type) {
	case string:
		return t == String
	case bool:
		return t == Boolean
	case int64:
		return t == Integer || t == Number
	case float64:
		return t == Number || t == Integer && value == math.Trunc(value)
	case []any:
		return t == List
	case map[string]any:
		return t == Object
	default:
		return true
	}
}

// Suggest returns the value that the user probably meant, in this JSON type. If it can't guess, it describes the type, such as "a whole
// number".
func (t JSON) Suggest(value any) string {
	written, isText := value.(string)
	switch t {
	case String:
		switch value.(type) {
		case bool, int64, float64:
			if text, err := json.Marshal(value); err == nil {
				return strconv.Quote(string(text))
			}
		}
	case Integer:
		if _, err := strconv.ParseInt(written, 10, 64); isText && err == nil {
			return written
		}
		return "a whole number"
	case Number:
		if _, err := strconv.ParseFloat(written, 64); isText && err == nil {
			return written
		}
	case Boolean:
		if isText && (written == "true" || written == "false") {
			return written
		}
		return "true or false"
	case Any, List, Object:
	}
	return string(t)
}
