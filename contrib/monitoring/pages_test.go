package monitoring

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

const (
	root        = "../.."
	page        = root + "/docs/monitoring.md"
	monitorFile = root + "/config/prometheus/monitor.yaml"
	serviceFile = root + "/examples/kubebuilder/config/default/metrics_service.yaml"
)

func read(t testing.TB, file string, into any) {
	t.Helper()
	g := NewWithT(t)
	text, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(yaml.UnmarshalStrict(text, into)).To(Succeed(), file)
}

// The monitor must select the metrics service that kubebuilder writes, and one of its ports.
func TestMonitor_SelectsTheMetricsService(t *testing.T) {
	g := NewWithT(t)
	var monitor monitoringv1.ServiceMonitor
	var service corev1.Service
	read(t, monitorFile, &monitor)
	read(t, serviceFile, &service)
	g.Expect(monitor.Kind).To(Equal(monitoringv1.ServiceMonitorsKind))
	g.Expect(monitor.Spec.Selector.MatchLabels).NotTo(BeEmpty())
	for label, value := range monitor.Spec.Selector.MatchLabels {
		g.Expect(service.Labels).To(HaveKeyWithValue(label, value))
	}
	g.Expect(monitor.Spec.Endpoints).To(HaveLen(1))
	endpoint := monitor.Spec.Endpoints[0]
	g.Expect(slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == endpoint.Port })).To(BeTrue())
	g.Expect(endpoint.HonorLabels).To(BeFalse(), "the rules use exported_namespace")
}

// Each alert must have a section, and each section that is named after an alert must have an alert.
func TestPage_DescribesAllAlerts(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(page)
	g.Expect(err).NotTo(HaveOccurred())
	sections := map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		sections[title], _, _ = strings.Cut(body, "\n## ")
	}
	rules := readRules(t)
	for name, r := range rules {
		g.Expect(sections).To(HaveKey(name))
		g.Expect(sections[name]).To(ContainSubstring("\n1. "), "%s: no steps", name)
		row := "| [" + name + "](#" + strings.ToLower(name) + ") | " + r.Labels["severity"] + " |"
		g.Expect(string(text)).To(ContainSubstring(row))
	}
	for title := range sections {
		if strings.HasPrefix(title, "Kopf") {
			g.Expect(rules).To(HaveKey(title))
		}
	}
}

var metricName = regexp.MustCompile(`\b(kopf|workqueue|controller_runtime|rest_client)_\w+`)

func TestPage_NamesExistingMetrics(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(page)
	g.Expect(err).NotTo(HaveOccurred())
	all := known(exposed(t))
	names := metricName.FindAllString(string(text), -1)
	g.Expect(names).NotTo(BeEmpty())
	for _, name := range names {
		g.Expect(all).To(HaveKey(name))
	}
}

// The commands of the page must use existing files, and the commands of kopf must have the flags.
func TestPage_CommandsExist(t *testing.T) {
	g := NewWithT(t)
	program := filepath.Join(t.TempDir(), "kopf")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/kopf")
	build.Dir = root
	output, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(output))
	steps, err := doctest.Steps(page)
	g.Expect(err).NotTo(HaveOccurred())
	kopfCommands, files := 0, 0
	for _, step := range steps {
		if step.Language != "sh" {
			continue
		}
		for line := range strings.Lines(step.Text) {
			words := strings.Fields(line)
			if words[0] == "kopf" { // its files are those of the operator
				kopfCommands++
				g.Expect(checkCommand(t, program, words[1:])).To(BeEmpty(), line)
				continue
			}
			g.Expect(words[0]).To(Equal("kubectl"), line)
			for _, word := range words {
				if _, path, found := strings.Cut(word, "config/"); found {
					g.Expect(filepath.Join(root, "config", path)).To(BeAnExistingFile(), line)
					files++
				}
			}
		}
	}
	g.Expect(kopfCommands).To(BeNumerically(">", 3))
	g.Expect(files).To(BeNumerically(">", 2))
	g.Expect(checkCommand(t, program, []string{"objects", "show"})).NotTo(BeEmpty())
	g.Expect(checkCommand(t, program, []string{"objects", "list", "--everything"})).NotTo(BeEmpty())
}

// checkCommand returns the output if kopf does not have the command with the flags. The flag --help prevents the execution.
func checkCommand(t testing.TB, program string, arguments []string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), program, append(arguments, "--help")...).CombinedOutput()
	usage := "Usage:\n  kopf " + strings.Join(arguments[:2], " ") + " "
	if err == nil && bytes.Contains(output, []byte(usage)) {
		return ""
	}
	return string(output)
}
