package guide

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// PROG-02: docs/persistence.md shows the stored state during a creation and after it.
func TestPersistence_StoredState(t *testing.T) {
	g := NewWithT(t)
	var shown []string
	for _, s := range steps(t, "../../docs/persistence.md") {
		if s.Language == "yaml" {
			shown = append(shown, s.Text)
		}
	}
	g.Expect(shown).To(HaveLen(2), "the page must show two states")

	type request = kopf.Request[*unstructured.Unstructured]
	nothing := func(context.Context, *request) error { return nil }
	for i, length := range []time.Duration{time.Minute, time.Hour} {
		created := newDatabase("orders", nil)
		created.SetFinalizers(nil)
		created.SetUID("6f3c1a52-8c0e-4c5e-9d3b-0f1f0a2b3c4d")
		created.Object["spec"] = map[string]any{"size": int64(1)}
		report := kopftest.Cycle(t, kopftest.Given{Duration: length, Objects: []client.Object{created}, CRDs: []string{"testdata/databases.yaml"}},
			kopf.For(kopf.Unstructured(databaseKind)).
				OnCreate("provision", nothing).
				OnCreate("announce", func(_ context.Context, req *request) error {
					if req.Attempt.Number == 0 {
						return kopf.Temporary(errors.New("busy"), 10*time.Minute)
					}
					return nil
				}).
				OnDelete("drop", nothing))
		g.Expect(report.Get(t, created)).To(BeTrue())
		stored, err := yaml.Marshal(map[string]any{"metadata": map[string]any{
			"finalizers": created.GetFinalizers(), "annotations": created.GetAnnotations(),
		}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(varying.ReplaceAllString(string(stored), `$1"..."`)).To(MatchYAML(shown[i]))
	}
}

// varying matches the values that differ between runs.
var varying = regexp.MustCompile(`("(?:started|stopped|delayed|attempted|digest)":)"[^"]*"`)
