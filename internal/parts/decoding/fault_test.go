package decoding_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/decoding"
)

// fragile is a Go type with all kinds of fields that objects may not fit.
type fragile struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas int32             `json:"replicas"`
		Until    *metav1.Time      `json:"until"`
		Every    metav1.Duration   `json:"every"`
		Labels   map[string]string `json:"labels"`
		Disks    []struct {
			Size  int64 `json:"size"`
			Mount mount `json:"mount"`
		} `json:"disks"`
	} `json:"spec"`
}

// mount decodes "<device>:<path>", and panics without a colon. An object needs both fields.
type mount struct{ device, path string }

func (m *mount) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "" {
		return errors.New("the mount is empty")
	}
	parts := strings.Split(text, ":")
	m.device, m.path = parts[0], parts[1]
	return nil
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct{ object, field, want string }{
		"an empty object":             {`{}`, "", ""},
		"unknown fields":              {`{"spec":{"replicas":1,"color":1.5}}`, "", ""},
		"null":                        {`{"spec":{"replicas":null,"until":null,"disks":null}}`, "", ""},
		"a fraction":                  {`{"metadata":{"name":"a"},"spec":{"replicas":1.5}}`, "spec.replicas", "cannot unmarshal number 1.5"},
		"an overflow":                 {`{"spec":{"replicas":3000000000}}`, "spec.replicas", "cannot unmarshal number 3000000000"},
		"a text for a number":         {`{"spec":{"replicas":"3"}}`, "spec.replicas", "cannot unmarshal string"},
		"a number for a time":         {`{"spec":{"replicas":1,"until":1700000000.5}}`, "spec.until", "cannot unmarshal number"},
		"a wrong time":                {`{"spec":{"until":"yesterday"}}`, "spec.until", `parsing time "yesterday"`},
		"a wrong duration":            {`{"spec":{"every":"daily"}}`, "spec.every", `invalid duration "daily"`},
		"a number in a map":           {`{"spec":{"labels":{"a":"x","b.example.com/c":2}}}`, "spec.labels.b.example.com/c", "cannot unmarshal number"},
		"a field of an item":          {`{"spec":{"disks":[{"size":1},{"size":2},{"size":"3Gi"}]}}`, "spec.disks[2].size", "cannot unmarshal string"},
		"the second of two types":     {`{"spec":{"replicas":"3","until":5}}`, "spec.until", "cannot unmarshal number"},
		"an object for a list":        {`{"spec":{"disks":{"size":1}}}`, "spec.disks", "cannot unmarshal object"},
		"a text for the spec":         {`{"spec":"none"}`, "spec", "cannot unmarshal string"},
		"a list for the object":       {`[]`, "", "cannot unmarshal array"},
		"an error of the Go type":     {`{"spec":{"disks":[{"mount":"sda:/data"},{"mount":""}]}}`, "spec.disks[1].mount", "the mount is empty"},
		"a panic of the Go type":      {`{"spec":{"disks":[{"mount":"sda"}]}}`, "spec.disks[0].mount", "panic: runtime error: index out of range"},
		"an incomplete text":          {`{"spec":{"replicas":1`, "", "unexpected end of JSON input"},
		"a fraction in scientific":    {`{"spec":{"disks":[{"size":1e-1}]}}`, "spec.disks[0].size", "cannot unmarshal number"},
		"a key with other characters": {`{"spec":{"labels":{"":1}}}`, "spec.labels.", "cannot unmarshal number"},
	} {
		t.Run(name, func(t *testing.T) {
			fault := decoding.Check([]byte(test.object), func() any { return &fragile{} })
			if test.want == "" {
				if fault != nil {
					t.Fatalf("fault = %v, want none", fault)
				}
				return
			}
			if fault == nil || fault.Field != test.field || !strings.Contains(fault.Err.Error(), test.want) || !strings.HasPrefix(fault.Error(), test.field) {
				t.Errorf("fault = %+v, want %q in %q", fault, test.want, test.field)
			}
		})
	}
}

// Users choose the values and keys that a fault contains.
func TestCheck_LimitsTexts(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for _, object := range []string{`{"spec":{"until":"` + long + `"}}`, `{"spec":{"labels":{"` + long + `":1}}}`} {
		if fault := decoding.Check([]byte(object), func() any { return &fragile{} }); fault == nil || len(fault.Error()) > 2000 {
			t.Errorf("a fault with %d bytes, want at most 2000", len(fault.Error()))
		}
	}
}
