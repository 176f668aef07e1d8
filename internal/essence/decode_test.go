package essence_test

import (
	"math"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

func TestDecode(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       map[string]any
	}{
		{"ESS-10 the form that kopf stores", "{\"spec\":{\"a\":1}}\n", map[string]any{"spec": map[string]any{"a": int64(1)}}},
		{"ESS-12 spaces and newlines around the text", " \n\t{\"a\": \"b\"}\r\n\n ", map[string]any{"a": "b"}},
		{"ESS-12 spaces inside the text", `{ "spec" : { } }`, map[string]any{"spec": map[string]any{}}},
		{"ESS-11 keys in any order", `{"b":1,"a":2}`, map[string]any{"a": int64(2), "b": int64(1)}},
		{"ESS-10 escaped characters", `{"a":"\u0451\ud83d\ude00"}`, map[string]any{"a": "ё\U0001F600"}},
		{"MIG-04 integers beyond 2^53", `{"a":9007199254740993}`, map[string]any{"a": int64(9007199254740993)}},
		{"MIG-04 the largest integer", `{"a":9223372036854775807}`, map[string]any{"a": int64(math.MaxInt64)}},
		{"MIG-04 fractions", `{"a":1.5,"b":1.0}`, map[string]any{"a": 1.5, "b": 1.0}},
		{"ESS-24 nulls", `{"a":null,"b":{"c":null}}`, map[string]any{"a": nil, "b": map[string]any{"c": nil}}},
		{"ESS-06 an empty object", `{}`, map[string]any{}},
		{
			"ESS-08 fields that an earlier version stored",
			`{"metadata":{"labels":{"l":"v"},"annotations":{"kopf.zalando.org/x":"y"}},"status":{"kopf":{"progress":{"a":{}}}}}`,
			map[string]any{"metadata": map[string]any{"labels": map[string]any{"l": "v"}}},
		},
		{
			"ESS-22 keeps fields of the status",
			`{"status":{"phase":"up"}}`, map[string]any{"status": map[string]any{"phase": "up"}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := decode([]byte(test.text), cleaners()...)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "essence", got, test.want)
		})
	}
}

func TestDecode_InvalidText(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"B-30 an empty text", ""},
		{"B-30 invalid JSON", "{"},
		{"B-30 two JSON documents", "{} {}"},
		{"B-30 a list", "[]"},
		{"B-30 a string", `"{}"`},
		{"B-30 a number", "1"},
		{"B-30 ESS-12 null", "null"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := decode([]byte(test.text), cleaners()...); err == nil {
				t.Errorf("Decode returned %v, want an error", got)
			}
		})
	}
}

func TestEncode_InvalidJSON(t *testing.T) {
	if text, err := essence.Encode(map[string]any{"a": math.Inf(1)}); err == nil {
		t.Errorf("Encode returned %s, want an error", text)
	}
}

// The engine compares the stored essence with the current object.
func TestDecodedEssenceComparedWithObject(t *testing.T) {
	for _, test := range []struct {
		name, stored string
		object       map[string]any
		changed      bool
	}{
		{"ESS-23 ignores the order of keys", `{"a":1,"b":2}`, map[string]any{"b": int64(2), "a": int64(1)}, false},
		{"ESS-23 compares numbers by value", `{"a":1.0,"b":1}`, map[string]any{"a": int64(1), "b": 1.0}, false},
		{"ESS-23 detects different numbers", `{"a":1}`, map[string]any{"a": 1.5}, true},
		{"MIG-04 distinguishes adjacent integers beyond 2^53", `{"a":9007199254740993}`, map[string]any{"a": int64(9007199254740992)}, true},
		{"MIG-04 SE-56 true differs from 1", `{"a":true}`, map[string]any{"a": int64(1)}, true},
		{"MIG-04 SE-56 false differs from 0", `{"a":0}`, map[string]any{"a": false}, true},
		{"ESS-24 treats null as absent", `{"a":null}`, map[string]any{}, false},
		{"ESS-06 an empty field differs from an absent one", `{"spec":{}}`, map[string]any{}, true},
		{"MIG-03 an unknown field is a change", `{"spec":{"a":1}}`, map[string]any{"spec": map[string]any{"a": int64(1), "future": "x"}}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			old, err := decode([]byte(test.stored))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "changed", !diff.Equal(old, build(test.object)), test.changed)
		})
	}
}
