package kopf_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func TestParsePath(t *testing.T) {
	for path, want := range map[string][]string{
		"spec":                                {"spec"},
		"spec.size":                           {"spec", "size"},
		"spec.a.b.c":                          {"spec", "a", "b", "c"},
		`metadata.labels.example\.com/tier`:   {"metadata", "labels", "example.com/tier"},
		`metadata.annotations.a\.b\.c.d`:      {"metadata", "annotations", "a.b.c", "d"},
		`\.`:                                  {"."},
		"metadata.labels.with-dash_and/slash": {"metadata", "labels", "with-dash_and/slash"},
	} {
		t.Run(fmt.Sprintf("HND-05 %s", path), func(t *testing.T) {
			got, err := kopf.ParsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
	for _, path := range []string{"", ".", "spec.", ".spec", "spec..size"} {
		t.Run(fmt.Sprintf("HND-05 %q is invalid", path), func(t *testing.T) {
			if keys, err := kopf.ParsePath(path); err == nil {
				t.Errorf("got keys %q, want an error", keys)
			}
		})
	}
}
