package progress_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const baselineKey = kopfPrefix + "/last-handled-configuration"

func TestAnnotationBaseline_Store(t *testing.T) {
	long := "a-very-long-prefix-of-more-than-36-chars.example.com"
	for _, test := range []struct {
		name, prefix string
		obj          client.Object
		want         []string // expected keys
	}{
		{"KEY-01 ESS-10 default prefix", "", configMap(), []string{"last-handled-configuration"}},
		{"ESS-10 a custom prefix", ownPrefix, configMap(), []string{"last-handled-configuration"}},
		{"KEY-06 ESS-10 a long prefix", long, configMap(), []string{"las-a.A3qw", "last-handled-configuration"}},
		{"KEY-13 a ReplicaSet of a Deployment", "", ownedReplicaSet("ReplicaSet", "Deployment"), []string{"last-handled-configuration-ofDRS"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			baseline := progress.AnnotationBaseline(test.prefix)
			if got := baseline.Fetch(test.obj); got != nil {
				t.Errorf("baseline before Store = %q, want none", got)
			}
			baseline.Store(test.obj, []byte(`{"spec":{"a":"\u0451<&>"}}`))
			prefix := test.prefix
			if prefix == "" {
				prefix = kopfPrefix
			}
			equal(t, "names", namesOf(test.obj, prefix), test.want)
			for _, name := range test.want {
				equal(t, "ESS-10 one newline", test.obj.GetAnnotations()[prefix+"/"+name], `{"spec":{"a":"\u0451<&>"}}`+"\n")
			}
			equal(t, "ESS-10 baseline after Store", string(baseline.Fetch(test.obj)), `{"spec":{"a":"\u0451<&>"}}`)

			baseline.Store(test.obj, []byte(`{}`))
			equal(t, "ESS-16 baseline after another Store", string(baseline.Fetch(test.obj)), `{}`)
		})
	}
}

func TestAnnotationBaseline_Fetch(t *testing.T) {
	long := "a-very-long-prefix-of-more-than-36-chars.example.com"
	for _, test := range []struct {
		name, prefix string
		annotations  []string
		want         string
		absent       bool
	}{
		{name: "ESS-12 surrounding whitespace", annotations: []string{baselineKey, "\n {\"a\": 1}\r\n\n"}, want: `{"a": 1}`},
		{name: "ESS-12 no whitespace", annotations: []string{baselineKey, `{}`}, want: `{}`},
		{name: "ESS-12 null", annotations: []string{baselineKey, "null"}, absent: true},
		{name: "ESS-12 null with a newline", annotations: []string{baselineKey, "null\n"}, absent: true},
		{name: "CAUSE-28 none", annotations: []string{kopfPrefix + "/fn", "{}"}, absent: true},
		{name: "ESS-15 B-30 invalid JSON is returned", annotations: []string{baselineKey, "{"}, want: "{"},
		{name: "B-34 another prefix", prefix: ownPrefix, annotations: []string{baselineKey, "{}"}, absent: true},
		{
			name: "KEY-11 the newer key takes precedence", prefix: long,
			annotations: []string{long + "/las-a.A3qw", `{"v":1}`, long + "/last-handled-configuration", `{"v":2}`}, want: `{"v":2}`,
		},
		{name: "KEY-11 MIG-06 the older key", prefix: long, annotations: []string{long + "/las-a.A3qw", `{"v":1}`}, want: `{"v":1}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := progress.AnnotationBaseline(test.prefix).Fetch(configMap(test.annotations...))
			if (got == nil) != test.absent || string(got) != test.want {
				t.Errorf("Fetch = %q, want %q", got, test.want)
			}
		})
	}
}

func TestAnnotationBaseline_IgnoresBaselineOfDeployment(t *testing.T) {
	set := ownedReplicaSet("ReplicaSet", "Deployment")
	set.SetAnnotations(map[string]string{baselineKey: "{}"})
	if got := progress.AnnotationBaseline("").Fetch(set); got != nil {
		t.Errorf("KEY-13: baseline of the ReplicaSet = %q, want none, because it belongs to the Deployment", got)
	}
}

func TestAnnotationBaseline_Check(t *testing.T) {
	for _, test := range []struct {
		name, prefix string
		fine         bool
	}{
		{"KEY-01 default prefix", "", true},
		{"KEY-01 custom prefix", ownPrefix, true},
		{"KEY-15 long prefix", prefixOf(100), true},
		{"KEY-03 prefix above the limit", prefixOf(254), false},
		{"KEY-02 a slash", "example.com/a", false},
		{"KEY-02 a capital letter", "Example.com", false},
		{"KEY-02 a space", " ", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := progress.AnnotationBaseline(test.prefix).(progress.Checker).Check()
			if (err == nil) != test.fine {
				t.Fatalf("Check = %v, want no error: %t", err, test.fine)
			}
			if err != nil && !strings.Contains(err.Error(), test.prefix) {
				t.Errorf("Check = %v, want an error about the prefix", err)
			}
		})
	}
}

func TestAnnotationBaseline_Clear(t *testing.T) {
	long := "a-very-long-prefix-of-more-than-36-chars.example.com"
	for _, test := range []struct {
		name, prefix  string
		essence, want map[string]any
	}{
		{"ESS-07 default key", "", essenceOf(baselineKey, "{}", "a", "b"), essenceOf("a", "b")},
		{"ESS-07 KEY-13 the key of a ReplicaSet", "", essenceOf(baselineKey+"-ofDRS", "{}", "a", "b"), essenceOf("a", "b")},
		{
			"ESS-07 the older and the newer keys", long,
			essenceOf(long+"/last-handled-configuration", "", long+"/las-a.A3qw", "", long+"/last-handled-configuration-ofDRS", "", long+"/las-Fut6wg", "", "a", "b"),
			essenceOf("a", "b"),
		},
		{"ESS-07 other keys with the same prefix", ownPrefix, essenceOf(ownPrefix+"/x", "y"), essenceOf(ownPrefix+"/x", "y")},
		{"ESS-07 baseline of another operator", ownPrefix, essenceOf(baselineKey, "{}"), essenceOf(baselineKey, "{}")},
		{"ESS-06 empty parents are removed", "", essenceOf(baselineKey, "{}"), map[string]any{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			progress.AnnotationBaseline(test.prefix).Clear(test.essence)
			equal(t, "essence", test.essence, test.want)
		})
	}
}

// ESS-10, SET-38: the rules of the default name also apply to a custom name.
func TestAnnotationBaselineKey(t *testing.T) {
	key := ownPrefix + "/seen-last"
	baseline := progress.AnnotationBaselineKey(ownPrefix, "seen-last")
	obj := configMap(ownPrefix+"/last-handled-configuration", `{"of":"another"}`)
	if got := baseline.Fetch(obj); got != nil {
		t.Errorf("baseline before Store = %q, want none", got)
	}
	baseline.Store(obj, []byte(`{}`))
	equal(t, "stored baseline", obj.Annotations[key], "{}\n")
	equal(t, "baseline after Store", string(baseline.Fetch(obj)), "{}")
	equal(t, "KEY-20 marker", obj.Annotations[ownPrefix+"/kopf-managed"], "yes")
	essence := essenceOf(key, "{}", key+"-ofDRS", "{}", "a", "b")
	baseline.Clear(essence)
	equal(t, "ESS-07 essence", essence, essenceOf("a", "b"))
	// The baseline is not a handler's record, and the pin does not overwrite it.
	if err := progress.Annotations(ownPrefix).(progress.Sweeper).Sweep(obj, nil); err != nil {
		t.Fatal(err)
	}
	progress.Pin(baseline).Store(obj, []byte(`{"b":1}`))
	equal(t, "baseline after Sweep and pin", string(baseline.Fetch(obj)), "{}")
	equal(t, "pin", obj.Annotations[ownPrefix+"/pinned-configuration"], `{"b":1}`)

	if progress.AnnotationBaselineKey("", "") != progress.AnnotationBaseline("") {
		t.Error("an empty name must select the default name")
	}
	for name, part := range map[string]string{
		"a b": "invalid annotation", "kopf-managed": "choose another name", "pinned-configuration": "choose another name", "touch-dummy": "choose another name",
	} {
		err := progress.AnnotationBaselineKey(ownPrefix, name).(progress.Checker).Check()
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error = %v, want an error with %q", name, err, part)
		}
	}
}
