package conditions_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
)

// FuzzSet sets conditions on arbitrary objects. If Set fails, the object stays unchanged. Otherwise the conditions
// are valid, a second Set changes nothing, and all other bytes stay the same.
func FuzzSet(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"status":null}`, `{"status":[]}`, `{"status":{"conditions":null}}`, `{"status":{"conditions":"x"}}`,
		`{"status":{"conditions":[null,1,"x",[],{},{"type":null},{"type":"Ready","status":true,"observedGeneration":"7"}]}}`,
		`{"status":{"conditions":{"Ready":null,"Other":{"status":"True","type":5}}},"metadata":{"generation":3}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Up","message":"m","observedGeneration":9,"lastTransitionTime":"x"},{"type":"Ready"}]}}`,
		`{"status":{"conditions":[{"type":"A","lastTransitionTime":"2024-01-01T00:00:00.5+01:00","x":{"y":[1.5]}}]},"metadata":{"generation":-1}}`,
	} {
		f.Add([]byte(seed), "Up", "fine", uint8(0))
		f.Add([]byte(seed), "not so fine", "a\xffb", uint8(1))
	}
	f.Fuzz(func(t *testing.T, content []byte, reason, message string, choice uint8) {
		var object map[string]any
		if json.Unmarshal(content, &object) != nil {
			return
		}
		object, _ = normalizeNumbers(object).(map[string]any)
		before := runtime.DeepCopyJSON(object)
		obj := &unstructured.Unstructured{Object: object}
		s, err := conditions.For(obj)
		if err != nil {
			if !reflect.DeepEqual(before, object) {
				t.Fatalf("the object changed despite the error %v", err)
			}
			return
		}
		if s.Changed() || !reflect.DeepEqual(before, object) {
			t.Fatal("reading the set changed the object")
		}
		old, _ := s.Get("Ready")
		status := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}[choice%3]
		s.Set(metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message})
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
		got, exists := s.Get("Ready")
		switch {
		case !exists || got.Status != status:
			t.Fatalf("got the condition %v, want the status %s", got, status)
		case !reasonOfTheAPI.MatchString(got.Reason) || len(got.Reason) > 1024:
			t.Fatalf("got the invalid reason %q", got.Reason)
		case !utf8.ValidString(got.Message) || utf8.RuneCountInString(got.Message) > 32768:
			t.Fatalf("got the invalid message %q", got.Message)
		case got.ObservedGeneration < old.ObservedGeneration:
			t.Fatalf("observedGeneration decreased from %d to %d", old.ObservedGeneration, got.ObservedGeneration)
		case old.Status == status && !old.LastTransitionTime.IsZero() && !got.LastTransitionTime.Equal(&old.LastTransitionTime):
			t.Fatalf("lastTransitionTime changed from %v to %v without a transition", old.LastTransitionTime, got.LastTransitionTime)
		}
		again := setOf(t, obj)
		again.Set(metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message})
		if again.Changed() {
			t.Fatalf("setting the same condition again changed it to %v", got)
		}
		s.Remove("Ready")
		if _, exists := s.Get("Ready"); exists {
			t.Fatal("the condition exists after Remove")
		}
		if a, b := withoutTestConditions(before), withoutTestConditions(obj.Object); a != b {
			t.Fatalf("other content changed\nfrom %s\nto   %s", a, b)
		}
	})
}

// withoutTestConditions returns the object without the test's conditions and without their empty parents.
func withoutTestConditions(object map[string]any) string {
	object = runtime.DeepCopyJSON(object)
	status, _ := object["status"].(map[string]any)
	switch list := status["conditions"].(type) {
	case []any:
		var kept []any
		for _, item := range list {
			if entry, ok := item.(map[string]any); !ok || entry["type"] != "Ready" {
				kept = append(kept, item)
			}
		}
		status["conditions"] = kept
		if kept == nil {
			delete(status, "conditions")
		}
	case map[string]any:
		delete(list, "Ready")
		if len(list) == 0 {
			delete(status, "conditions")
		}
	case nil:
		delete(status, "conditions")
	}
	if len(status) == 0 {
		delete(object, "status")
	}
	out, _ := json.Marshal(object)
	if string(out) == "null" {
		return "{}"
	}
	return string(out)
}
