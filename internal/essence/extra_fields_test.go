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

func TestBuild_Fields(t *testing.T) {
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
		{"ESS-01 ESS-02 no additional fields", nil, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{"ESS-04 a field of the status", [][]string{{"status", "phase"}}, m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up"}}},
		{
			"ESS-04 two fields of the status",
			[][]string{{"status", "phase"}, {"status", "other"}},
			m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up", "other": "x"}},
		},
		{"ESS-04 ESS-06 an absent field of the status", [][]string{{"status", "none", "at", "all"}}, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{"ESS-04 a field of the spec", [][]string{{"spec", "f"}}, m{"spec": m{"f": int64(1)}, "metadata": meta}},
		{
			"ESS-04 a field of the system metadata",
			[][]string{{"metadata", "ownerReferences"}},
			m{"spec": m{"f": int64(1)}, "metadata": m{"annotations": m{"a": "b"}, "ownerReferences": []any{m{"kind": "B"}}}},
		},
		{
			"ESS-05 ESS-07 ESS-08 all annotations except those of the framework",
			[][]string{{"metadata", "annotations"}},
			m{"spec": m{"f": int64(1)}, "metadata": m{"annotations": m{"a": "b", lastApplied: "{}"}}},
		},
		{
			"ESS-08 the whole status except the part of the framework",
			[][]string{{"status"}},
			m{"spec": m{"f": int64(1)}, "metadata": meta, "status": m{"phase": "Up", "other": "x", "kopf": m{"more": "y"}}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			builder := essence.Builder{Fields: test.fields, Cleaners: []essence.Cleaner{progress.AnnotationBaseline(""), progress.Smart()}}
			given := content()
			equal(t, "essence", builder.Build(given), test.want)
			equal(t, "the object", given, content())
			equal(t, "ESS-14 essence of an essence", builder.Build(builder.Build(given)), test.want)
		})
	}
}
