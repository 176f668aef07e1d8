package guide

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// docs/upgrades.md shows the ConfigMap of a halted rollout. With it, an operator begins with no object until someone resumes the rollout.
func TestUpgrades_StateOfARollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var shown corev1.ConfigMap
		for _, s := range steps(t, "../../docs/upgrades.md") {
			if s.Language == "yaml" {
				g.Expect(yaml.UnmarshalStrict([]byte(s.Text), &shown)).To(Succeed())
			}
		}
		const kind = "databases.example.com"
		g.Expect(shown.Data).To(HaveKey(kind))
		states, err := rollout.Decode(&shown)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Marshal(states[kind])).To(MatchJSON(shown.Data[kind]), "all fields exist")

		cluster := kopftest.Memory(t, kopftest.CRDs("testdata/databases.yaml"), kopftest.Objects(newDatabase("orders", nil)))
		run := func(options ...kopf.HandlerOption) []kopf.Option {
			nothing := func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil }
			return []kopf.Option{kopf.For(kopf.Unstructured(databaseKind)).OnCreateOrUpdate("provision", nothing, options...)}
		}
		old := cluster.Run(t, run()...)
		old.RunUntilQuiet(t)
		old.Stop(t)

		cluster.Create(t, &shown)
		operator := cluster.Run(t, append(run(kopf.Revision(3)), kopf.WithRollout(rollout.Options{Namespace: shown.Namespace}))...)
		<-time.After(time.Hour)
		g.Expect(operator.Calls()).To(BeEmpty())
		g.Expect(rollout.Resume(t.Context(), cluster.Client, client.ObjectKeyFromObject(&shown), kind)).To(Succeed())
		<-time.After(time.Minute)
		g.Expect(operator.Calls(kopf.ReasonRevision)).To(HaveLen(1))
	})
}
