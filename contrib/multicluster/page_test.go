package kopfmulticluster

import (
	"os"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// The rules for Prometheus in docs/multicluster.md take the cluster from the labels, and leave the labels of other operators as they are.
func TestPage_RelabelingAddsTheCluster(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/multicluster.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, block, _ := strings.Cut(string(page), "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var endpoint struct {
		MetricRelabelings []struct {
			SourceLabels       []string
			Regex, TargetLabel string
		}
	}
	g.Expect(yaml.UnmarshalStrict([]byte(block), &endpoint)).To(Succeed())
	relabel := func(labels map[string]string) string {
		for _, rule := range endpoint.MetricRelabelings {
			g.Expect(rule.TargetLabel).To(Equal("cluster"))
			if found := regexp.MustCompile("^(?:" + rule.Regex + ")$").FindStringSubmatch(labels[rule.SourceLabels[0]]); found != nil {
				labels["cluster"] = found[1] // the default replacement is $1
			}
		}
		return labels["cluster"]
	}
	g.Expect(relabel(map[string]string{"kind": "east/configmap"})).To(Equal("east"))
	g.Expect(relabel(map[string]string{"controller": "root:org/east/configmap"})).To(Equal("root:org/east"))
	g.Expect(relabel(map[string]string{"kind": "configmap", "controller": "configmap"})).To(BeEmpty())
}
