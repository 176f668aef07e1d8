// Package jsonform encodes the JSON forms of objects, such as map[string]any, without reflection.
package jsonform
