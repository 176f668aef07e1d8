package guide

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// patience is the timeout of each wait.
const patience = 30 * time.Second

// controllerGen matches the command in the page. The test uses the same version from the modules of hack/tools.
var controllerGen = regexp.MustCompile(`^go run (sigs\.k8s\.io/controller-tools/cmd/controller-gen)@(\S+) `)

// newcomer follows docs/getting-started.md in an empty folder.
type newcomer struct {
	Gomega
	t        *testing.T
	folder   string
	clone    string // path of the clone in the page
	terminal doctest.Terminal
	client   client.Client
	operator *program.Program
	logged   int // number of log lines that were read
}

func TestGettingStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	top := t.TempDir()
	r := &newcomer{Gomega: NewWithT(t), t: t, folder: top, terminal: terminal(t, top)}
	c, err := client.New(cfg, client.Options{})
	r.Expect(err).NotTo(HaveOccurred())
	r.client = c

	followed := 0
	for _, s := range steps(t, "../../docs/getting-started.md") {
		switch {
		case s.File != "":
			r.write(s.File, s.Text)
		case s.Language == "sh":
			for _, command := range s.Commands() {
				r.command(command)
				followed++
			}
		case strings.HasPrefix(s.Text, "INFO"):
			for line := range strings.Lines(s.Text) {
				r.logs(line)
			}
		}
		if strings.Contains(s.Text, "config/samples\n") {
			r.checkBetweenAttempts()
		}
	}
	r.Expect(followed).To(BeNumerically(">", 10), "the page must have more than 10 commands")
	r.Expect(r.operator.Stop(10 * time.Second)).To(Succeed())
	removeDatabases(NewWithT(t), c, envtest.CRDInstallOptions{Paths: []string{filepath.Join(r.folder, "config", "crd")}})
}

func (r *newcomer) write(file, text string) {
	path := filepath.Join(r.folder, file)
	r.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	r.Expect(os.WriteFile(path, []byte(text), 0o644)).To(Succeed())
}

// command runs one line of the page.
func (r *newcomer) command(line string) {
	r.t.Helper()
	words := strings.Fields(line)
	switch {
	case words[0] == "git":
		r.clone = "../kopf-runtime"
	case words[0] == "mkdir":
		r.Expect(os.Mkdir(filepath.Join(r.folder, words[1]), 0o755)).To(Succeed())
	case words[0] == "cd":
		r.folder = filepath.Join(r.folder, words[1])
		r.terminal.Folder = r.folder
	case line == "make cluster", words[0] == "export": // the test has already done this
	case words[0] == "kubectl":
		_, err := r.terminal.Type(r.t.Context(), line)
		r.Expect(err).NotTo(HaveOccurred())
	case line == "go run .":
		r.start()
	default:
		r.Expect(words[0]).To(Equal("go"), "unknown command %q; add it to the test", line)
		r.goCommand(line)
	}
}

// goCommand runs a go command of the page. For the generator, it uses the pinned modules, which must have the same
// version.
func (r *newcomer) goCommand(line string) {
	r.t.Helper()
	root, err := filepath.Abs("../..") // the test uses its own repository instead of a clone, because its build cache is filled
	r.Expect(err).NotTo(HaveOccurred())
	line = strings.ReplaceAll(line, r.clone, root)
	command := exec.CommandContext(r.t.Context(), "sh", "-c", line)
	if match := controllerGen.FindStringSubmatch(line); match != nil {
		pinned, err := exec.CommandContext(r.t.Context(), "go", "-C", "../../hack/tools", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/controller-tools").Output()
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(match[2]).To(Equal(strings.TrimSpace(string(pinned))), "the page and hack/tools must have the same version")
		tool, err := exec.CommandContext(r.t.Context(), "go", "-C", "../../hack/tools", "tool", "-n", "controller-gen").Output()
		r.Expect(err).NotTo(HaveOccurred())
		command = exec.CommandContext(r.t.Context(), "sh", "-c", strings.TrimSpace(string(tool))+" "+strings.TrimPrefix(line, match[0]))
	}
	command.Dir = r.folder
	out, err := command.CombinedOutput()
	r.Expect(err).NotTo(HaveOccurred(), "%s:\n%s", line, out)
}

// start runs the built operator, because "go run" would build it again.
func (r *newcomer) start() {
	r.t.Helper()
	r.Eventually(r.established).WithTimeout(patience).Should(BeTrue())

	// The user of the page has all permissions. The operator needs only those of the first row of the table in docs/deployment.md.
	row := featureRows()[0]
	row.rights.Kinds = databaseResources
	user := configWithRights(r.t, row.rights, row.options...).Impersonate.UserName
	kubeconfig := filepath.Join(r.t.TempDir(), "kubeconfig")
	access, err := clientcmd.LoadFromFile(r.terminal.Kubeconfig)
	r.Expect(err).NotTo(HaveOccurred())
	for _, one := range access.AuthInfos {
		one.Impersonate = user
	}
	r.Expect(clientcmd.WriteToFile(*access, kubeconfig)).To(Succeed())
	r.operator, err = program.Start(filepath.Join(r.folder, "databases"), nil, "KUBECONFIG="+kubeconfig)
	r.Expect(err).NotTo(HaveOccurred())
	r.t.Cleanup(func() { _ = r.operator.Kill() })
	r.Eventually(r.operator.Lines).WithTimeout(patience).Should(ContainElement(ContainSubstring("Starting workers")))
}

// established reports whether the CRD is established.
func (r *newcomer) established() (bool, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := r.client.Get(r.t.Context(), client.ObjectKey{Name: "databases.example.com"}, crd); err != nil {
		return false, err
	}
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		fields, _ := one.(map[string]any)
		return fields["type"] == "Established" && fields["status"] == "True"
	}), err
}

// checkBetweenAttempts compares the object between the two attempts with the page.
func (r *newcomer) checkBetweenAttempts() {
	orders := newDatabase("orders", nil)
	r.Eventually(func(g Gomega) {
		g.Expect(r.client.Get(r.t.Context(), client.ObjectKeyFromObject(orders), orders)).To(Succeed())
		g.Expect(orders.GetAnnotations()).To(HaveKeyWithValue("kopf.zalando.org/provision",
			ContainSubstring(`"purpose":"create","retries":1,"success":false,"failure":false,"message":"the cloud is busy"`)))
		g.Expect(orders.GetFinalizers()).To(HaveLen(1))
	}).WithTimeout(patience).Should(Succeed())
}

var column = regexp.MustCompile(`"[^"]*": (?:"[^"]*"|[^,}]*)`)

// logs waits for a log line with the message and the fields of a line in the page. The log line may have more fields.
func (r *newcomer) logs(shown string) {
	r.t.Helper()
	message := strings.Split(shown, "\t")[1]
	fields := column.FindAllString(shown, -1)
	r.Expect(fields).NotTo(BeEmpty(), "the line %q must have fields", shown)
	r.Eventually(func() error {
		lines := r.operator.Lines()
		for i, line := range lines[r.logged:] {
			if strings.Contains(line, message) && !slices.ContainsFunc(fields, func(f string) bool { return !strings.Contains(line, f) }) {
				r.logged += i + 1
				return nil
			}
		}
		return fmt.Errorf("want a line like %q, got\n%s", shown, strings.Join(lines[r.logged:], "\n"))
	}).WithTimeout(patience).Should(Succeed())
}
