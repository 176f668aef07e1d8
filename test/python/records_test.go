package python

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The functions in this file read the stored state without the library, which would make the same mistakes when it reads and writes.

const defaultPrefix = "kopf.zalando.org"

// A place is where both sides keep their state: a store and its prefix.
type place struct {
	name      string
	store     string
	prefix    string
	finalizer string
}

var places = []place{
	{"smart", "smart", defaultPrefix, ""},
	{"annotations", "annotations", defaultPrefix, ""},
	{"prefix", "annotations", "things.example.com", "things.example.com/finalizer"},
	{"v2", "annotations-v2", "a-rather-long-prefix-of-an-operator.things.example.com", ""},
	{"status", "status", defaultPrefix, ""},
	{"multi", "multi", "things.example.com", ""},
}

func (p place) finalizerName() string {
	if p.finalizer != "" {
		return p.finalizer
	}
	return "kopf.zalando.org/KopfFinalizerMarker"
}

// A stored record of a handler.
type record struct {
	Started string   `json:"started"`
	Stopped string   `json:"stopped"`
	Delayed string   `json:"delayed"`
	Purpose string   `json:"purpose"`
	Retries int      `json:"retries"`
	Success bool     `json:"success"`
	Failure bool     `json:"failure"`
	Message string   `json:"message"`
	Subrefs []string `json:"subrefs"`
}

func (r *record) finished() bool { return r != nil && (r.Success || r.Failure) }

// due returns the time of the next attempt, or the zero time.
func (r *record) due() (time.Time, error) {
	if r == nil || r.Delayed == "" {
		return time.Time{}, nil
	}
	return time.Parse(time.RFC3339Nano, r.Delayed)
}

// record returns the record of a handler, or nil.
func (p place) record(obj thing, id string) (found *record, err error) {
	if p.store == "status" {
		value, ok, err := unstructured.NestedMap(obj.Object, "status", "kopf", "progress", id)
		if err != nil || !ok {
			return nil, err
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		return parseRecord(string(text))
	}
	safe := strings.ReplaceAll(id, "/", ".")
	for key, text := range obj.GetAnnotations() {
		name, own := strings.CutPrefix(key, p.prefix+"/")
		// Long names are cut, and have a hash.
		const kept = 30
		if own && (name == safe || len(safe) > kept && len(name) > kept && name[:kept] == safe[:kept]) {
			return parseRecord(text)
		}
	}
	return nil, nil
}

func parseRecord(text string) (*record, error) {
	parsed := &record{}
	if err := json.Unmarshal([]byte(text), parsed); err != nil {
		return nil, fmt.Errorf("the record %s: %w", text, err)
	}
	return parsed, nil
}

// baseline returns the last-handled configuration, or nil.
func (p place) baseline(obj thing) (map[string]any, error) {
	text, ok := obj.GetAnnotations()[p.prefix+"/last-handled-configuration"]
	if p.store == "status" {
		var err error
		if text, ok, err = unstructured.NestedString(obj.Object, "status", "kopf", "last-handled-configuration"); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, nil
	}
	var parsed map[string]any
	if err := json.Unmarshal([]byte(text), &parsed); err != nil {
		return nil, fmt.Errorf("the baseline %s: %w", text, err)
	}
	return parsed, nil
}

// isHandled returns a problem unless the baseline is the object without the fields that do not count.
func (p place) isHandled(obj thing) []string {
	stored, err := p.baseline(obj)
	if err != nil {
		return []string{err.Error()}
	}
	want := p.essence(obj)
	if !reflect.DeepEqual(stored, want) {
		return []string{fmt.Sprintf("the baseline is %v, and should be %v", stored, want)}
	}
	return nil
}

// essence returns the part of the object that counts, as JSON.
func (p place) essence(obj thing) map[string]any {
	annotations := map[string]any{}
	for key, value := range obj.GetAnnotations() {
		if !p.owns(key) {
			annotations[key] = value
		}
	}
	labels := map[string]any{}
	for key, value := range obj.GetLabels() {
		labels[key] = value
	}
	metadata := map[string]any{}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	essence := map[string]any{"metadata": metadata}
	for key, value := range obj.Object {
		switch key {
		case "apiVersion", "kind", "metadata", "status":
		default:
			essence[key] = value
		}
	}
	return asJSON(essence).(map[string]any)
}

func (p place) owns(annotation string) bool {
	return strings.HasPrefix(annotation, p.prefix+"/") || strings.HasPrefix(annotation, defaultPrefix+"/") || strings.HasPrefix(annotation, "kopf-runtime.dev/")
}

// asJSON converts a value to the types of encoding/json.
func asJSON(value any) (out any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err)
	}
	return out
}

// leftovers returns what is stored beside the baseline, after one side has taken over from the other or from itself.
func (p place) leftovers(obj thing, from, to string) (found []string) {
	extras := extrasStay.holds(from, to, scenario{}, handlerPart{})
	for key := range obj.GetAnnotations() {
		if !p.owns(key) {
			continue
		}
		switch _, name, _ := strings.Cut(key, "/"); {
		case name == "last-handled-configuration", name == "kopf-managed":
		case strings.HasPrefix(name, "state-of-") && (to == ours || extras):
		case name == "pinned-configuration" && extras:
		default:
			found = append(found, "the annotation "+key+" is left")
		}
	}
	kopf, _, err := unstructured.NestedMap(obj.Object, "status", "kopf")
	if err != nil {
		return append(found, err.Error())
	}
	for key, value := range kopf {
		inner, isMap := value.(map[string]any)
		switch {
		case key == "last-handled-configuration", isMap && len(inner) == 0:
		default:
			found = append(found, fmt.Sprintf("status.kopf.%s is left: %v", key, value))
		}
	}
	return found
}
