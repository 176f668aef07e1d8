package validation

import (
	"fmt"
	"slices"
	"strings"
)

// FieldPath splits a dotted path into its keys. Dots within a key are escaped with a backslash.
func FieldPath(path string) ([]string, error) {
	const dot = "\x00"
	keys := strings.Split(strings.ReplaceAll(path, `\.`, dot), ".")
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, dot, ".")
	}
	if !slices.Contains(keys, "") {
		return keys, nil
	}
	hint := ""
	if nonEmpty := slices.DeleteFunc(keys, func(key string) bool { return key == "" }); len(nonEmpty) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", JoinFieldPath(nonEmpty))
	}
	return nil, fmt.Errorf(`the path has an empty key: use a path such as "spec.size", and write a dot within a key as "\."%s`, hint)
}

// JoinFieldPath is the inverse of FieldPath.
func JoinFieldPath(path []string) string {
	keys := slices.Clone(path)
	for i, key := range keys {
		keys[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.Join(keys, ".")
}
