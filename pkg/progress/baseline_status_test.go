package progress_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const someEssence = `{"spec":{"a":"\u0451<&>"}}`

func TestStatusBaseline_Store(t *testing.T) {
	for name, obj := range fieldObjects() {
		t.Run("ESS-13 "+name, func(t *testing.T) {
			baseline := progress.StatusBaseline("")
			if got := baseline.Fetch(obj); got != nil {
				t.Errorf("baseline before Store = %q, want none", got)
			}
			empty := jsonOf(t, obj)
			baseline.Store(obj, []byte(someEssence+"\n"))
			equal(t, "ESS-13 baseline after Store", string(baseline.Fetch(obj)), someEssence)
			baseline.Store(obj, []byte(`{}`))
			equal(t, "ESS-16 baseline after another Store", string(baseline.Fetch(obj)), `{}`)

			left := jsonOf(t, obj)
			baseline.Clear(left)
			baseline.Clear(empty)
			equal(t, "ESS-07 remaining content", left, empty)
		})
	}
}

func TestStatusBaseline_FormatOfKopf(t *testing.T) {
	obj := withStatus(map[string]any{"phase": "up"})
	progress.StatusBaseline("").Store(obj, []byte(someEssence+"\n"))
	equal(t, "ESS-13 status with a string without a newline", obj.Object["status"],
		any(map[string]any{"phase": "up", "kopf": map[string]any{"last-handled-configuration": someEssence}}))

	progress.StatusBaseline("status.my.own").Store(obj, []byte(`{}`))
	equal(t, "ESS-13 value of another field", obj.Object["status"].(map[string]any)["my"], any(map[string]any{"own": "{}"}))
}

func TestStatusBaseline_Fetch(t *testing.T) {
	for _, test := range []struct {
		name   string
		value  any
		want   string
		absent bool
	}{
		{name: "ESS-12 surrounding whitespace", value: "\n {\"a\": 1}\r\n\n", want: `{"a": 1}`},
		{name: "ESS-12 null", value: "null\n", absent: true},
		{name: "ESS-12 null", value: nil, absent: true},
		{name: "ESS-12 an empty string, as in Go types", value: "", absent: true},
		{name: "ESS-15 B-30 invalid JSON is returned", value: "{", want: "{"},
		{name: "ESS-13 B-30 a nested object is returned", value: map[string]any{"a": int64(1)}, want: `{"a":1}`},
		{name: "ESS-13 B-30 a number is returned", value: int64(5), want: "5"},
		{name: "ESS-13 B-30 a value that cannot be encoded", value: func() {}, absent: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := progress.StatusBaseline("").Fetch(withStatus(map[string]any{"kopf": map[string]any{"last-handled-configuration": test.value}}))
			if (got == nil) != test.absent || string(got) != test.want {
				t.Errorf("Fetch = %q, want %q", got, test.want)
			}
		})
	}
	for name, obj := range map[string]client.Object{
		"no status": withStatus(nil), "a status of another shape": withStatus(map[string]any{"kopf": "x"}),
		"a Go type without the field": configMap(), "an object that cannot be encoded": &unencodable[wholeStatus]{},
	} {
		if got := progress.StatusBaseline("").Fetch(obj); got != nil {
			t.Errorf("ESS-13 %s: Fetch = %q, want nothing", name, got)
		}
	}
}

// CheckType reports such types. Store must not fail on them.
func TestStatusBaseline_TypeWithoutField(t *testing.T) {
	for name, obj := range map[string]client.Object{
		"a Go type without the field": configMap("a", "b"),
		"another value in its place":  withStatus(map[string]any{"kopf": "x"}),
	} {
		t.Run("B-33 "+name, func(t *testing.T) {
			before := obj.DeepCopyObject()
			progress.StatusBaseline("").Store(obj, []byte(someEssence))
			equal(t, "object", any(obj), any(before))
		})
	}
}

func TestStatusBaseline_Clear(t *testing.T) {
	const text = `{"spec":"x","status":{"kopf":{"last-handled-configuration":"{}","progress":{}},"mine":"{}"}}`
	for _, test := range []struct{ name, field, want string }{
		{"ESS-07 default field", "", `{"spec":"x","status":{"kopf":{"progress":{}},"mine":"{}"}}`},
		{"ESS-07 custom field", "status.mine", `{"spec":"x","status":{"kopf":{"last-handled-configuration":"{}","progress":{}}}}`},
		{"ESS-07 missing field", "status.other", text},
	} {
		t.Run(test.name, func(t *testing.T) {
			essence := decoded(t, text)
			progress.StatusBaseline(test.field).Clear(essence)
			equal(t, "essence", essence, decoded(t, test.want))
		})
	}
}

func decoded(t testing.TB, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
