// Package jsonform encodes the JSON forms of objects, such as map[string]any, without reflection. The engine encodes each object that it compares with its
// last-handled configuration, and encoding/json allocates memory for each key and value of a map.
package jsonform
