package validation

import (
	"encoding/json"
	"math"
	"strconv"
)

// JSONType is a JSON type. Its text includes the article, so messages can use it as it is.
type JSONType string

// The types of JSON values.
const (
	JSONAny     JSONType = ""
	JSONString  JSONType = "a string"
	JSONInteger JSONType = "an integer"
	JSONNumber  JSONType = "a number"
	JSONBoolean JSONType = "a boolean"
	JSONList    JSONType = "a list"
	JSONObject  JSONType = "an object"
)

// Accepts reports whether a field of this JSON type can have the value. It returns true for nil, and for Go types that never occur in
// decoded JSON.
func (t JSONType) Accepts(value any) bool {
	switch value := value.(type) {
	case string:
		return t == JSONString
	case bool:
		return t == JSONBoolean
	case int64:
		return t == JSONInteger || t == JSONNumber
	case float64:
		return t == JSONNumber || t == JSONInteger && value == math.Trunc(value)
	case []any:
		return t == JSONList
	case map[string]any:
		return t == JSONObject
	default:
		return true
	}
}

// Suggest returns the value that the user probably meant, in this JSON type. If it can't guess, it describes the type, such as "a whole
// number".
func (t JSONType) Suggest(value any) string {
	written, isText := value.(string)
	switch t {
	case JSONString:
		switch value.(type) {
		case bool, int64, float64:
			if text, err := json.Marshal(value); err == nil {
				return strconv.Quote(string(text))
			}
		}
	case JSONInteger:
		if _, err := strconv.ParseInt(written, 10, 64); isText && err == nil {
			return written
		}
		return "a whole number"
	case JSONNumber:
		if _, err := strconv.ParseFloat(written, 64); isText && err == nil {
			return written
		}
	case JSONBoolean:
		if isText && (written == "true" || written == "false") {
			return written
		}
		return "true or false"
	case JSONAny, JSONList, JSONObject:
	}
	return string(t)
}
