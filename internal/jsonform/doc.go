// Package jsonform encodes objects' JSON forms, such as map[string]any, without reflection. The engine encodes every object that it
// compares with its last-handled configuration, and encoding/json would allocate memory for each key and value of a map.
package jsonform
