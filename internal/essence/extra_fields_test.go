package essence_test

import (
	"testing"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func build(content map[string]any, cleaners ...essence.Cleaner) map[string]any {
	return essence.Builder{Cleaners: cleaners}.Build(content)
}

func decode(text []byte, cleaners ...essence.Cleaner) (map[string]any, error) {
	return essence.Builder{Cleaners: cleaners}.Decode(text)
}

func TestExtraFields(t *testing.T) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	type m = map[string]any
	content := func() m {
		return m{
			"kind": "A",
			"metadata": m{
				"name": "one", "ownerReferences": []any{m{"kind": "B"}},
				"annotations": m{
					"a": "b", lastApplied: "{}",
					"kopf.zalando.org/fn": "{}", "kopf.zalando.org/last-handled-configuration": "{}",
				},
			},
			"spec":   m{"f": int64(1)},
			"status": m{"phase": "Up", "other": "x", "kopf": m{"progress": m{"fn": m{"retries": int64(1)}}, "more": "y"}},
		}
	}
	meta := m{"annotations": m{"a": "b"}}
	for _, test := range []struct {
		name   string
		fields [][]string
		want   m
	}{
		{"ESS-01 ESS-02 none", nil, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{"ESS-04 of the status", [][]string{{"status", "phase"}}, m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up"}}},
		{
			"ESS-04 two of one stanza",
			[][]string{{"status", "phase"}, {"status", "other"}},
			m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up", "other": "x"}},
		},
		{"ESS-04 ESS-06 of the status, absent", [][]string{{"status", "none", "at", "all"}}, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{"ESS-04 of the spec: it is there anyway", [][]string{{"spec", "f"}}, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{
			"ESS-04 of hidden metadata",
			[][]string{{"metadata", "ownerReferences"}},
			m{"spec": m{"f": int64(1)}, "metadata": m{"annotations": m{"a": "b"}, "ownerReferences": []any{m{"kind": "B"}}}},
		},
		{
			"ESS-05 ESS-07 ESS-08 all annotations but our own",
			[][]string{{"metadata", "annotations"}},
			m{"spec": m{"f": int64(1)}, "metadata": m{"annotations": m{"a": "b", lastApplied: "{}"}}},
		},
		{
			"ESS-08 the whole status but our own",
			[][]string{{"status"}},
			m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up", "other": "x", "kopf": m{"more": "y"}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			shape := essence.Builder{Fields: test.fields, Cleaners: []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}}
			given := content()
			equal(t, "essence", shape.Build(given), test.want)
			equal(t, "the object, which is not ours to change", given, content())
			equal(t, "ESS-14 essence of an essence", shape.Build(shape.Build(given)), test.want)
		})
	}
}
