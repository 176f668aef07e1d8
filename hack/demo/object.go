package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func readSample(path string) (*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &obj.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return obj, nil
}

// lastHandled is the annotation with the last-handled configuration.
const lastHandled = "kopf.zalando.org/last-handled-configuration"

// unhandled describes why an object does not count as handled yet. It returns an empty string if it does.
func unhandled(obj *unstructured.Unstructured, reason string) string {
	switch deleted := reason == "delete"; {
	case deleted && obj == nil:
		return ""
	case deleted:
		return "the object still exists"
	case obj == nil:
		return "the object does not exist"
	}
	text, found := obj.GetAnnotations()[lastHandled]
	if !found {
		return "the object has no annotation " + lastHandled
	}
	var handled struct{ Spec map[string]any }
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&handled); err != nil {
		return fmt.Sprintf("decode annotation %s: %v", lastHandled, err)
	}
	if spec, _, _ := unstructured.NestedMap(obj.Object, "spec"); !sameJSON(spec, handled.Spec) {
		return "the spec in the annotation " + lastHandled + " differs from the object"
	}
	return ""
}

func sameJSON(a, b any) bool {
	one, err1 := json.Marshal(a)
	two, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(one, two)
}

// summary returns the main fields of an object as lines of YAML.
func summary(obj *unstructured.Unstructured) []string {
	if obj == nil {
		return nil
	}
	shown := map[string]any{}
	for _, path := range [][]string{
		{"metadata", "name"}, {"metadata", "annotations"}, {"metadata", "finalizers"}, {"spec"}, {"status"},
	} {
		if value, found, err := unstructured.NestedFieldNoCopy(obj.Object, path...); found && err == nil {
			if err := unstructured.SetNestedField(shown, value, path...); err != nil {
				return []string{err.Error()}
			}
		}
	}
	text, err := yaml.Marshal(shown)
	if err != nil {
		return []string{err.Error()}
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
