package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
)

// A commandRun is one run of the command.
type commandRun struct {
	*WithT
	output *gbytes.Buffer
	stop   func()
	ended  chan error
}

// begin runs an example until it ends, or until the end of the test.
func begin(t *testing.T, r run) *commandRun {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Minute) // for an empty build cache
	ctx, cancel := context.WithCancel(t.Context())
	p := &commandRun{g, gbytes.NewBuffer(), cancel, make(chan error, 1)}
	r.out = p.output
	g.Expect(r.find(t.Context())).To(Succeed())
	go func() {
		p.ended <- r.run(ctx)
		close(p.ended)
		_ = p.output.Close() // ends all waits for further output
	}()
	t.Cleanup(func() {
		cancel()
		for range p.ended { // wait until the channel is closed
		}
		if t.Failed() {
			t.Log(string(p.output.Contents()))
		}
	})
	return p
}

func (p *commandRun) waitFor(pattern string) { p.Eventually(p.output).Should(gbytes.Say(pattern)) }

func (p *commandRun) stopAndWait() {
	p.stop()
	p.Eventually(p.ended).Should(Receive(BeNil()), "the command must end without an error")
}

func TestDemo(t *testing.T) {
	for _, cluster := range []string{memory, own} {
		t.Run(cluster, func(t *testing.T) { playDemo(t, cluster) })
	}
}

func playDemo(t *testing.T, cluster string) {
	p := begin(t, run{cluster: cluster, demo: true, keep: true})
	for _, text := range []string{
		`=== 1\. Creating a database`,
		`INFO  A new database  .*"handler": "provision", "reason": "create", "attempt": 0, "spec": {"engine":"postgres","sizeGiB":10}`,
		`finalizers:`,
		`host: orders.db.example.com`,
		`you       POST    databases/orders         201  {.*"sizeGiB":10`,
		`operator  PATCH   databases/orders         200  {"metadata":{"finalizers":`,
		`operator  PATCH   databases/orders/status  200  {.*"host":"orders.db.example.com"`,
		`operator  PATCH   databases/orders         200  {"metadata":{"annotations":`,
		`=== 2\. Editing it`,
		`INFO  The database has changed  .*"diff": "change spec.sizeGiB: 10 -> 20"`,
		`last-handled-configuration: \|\n.*"sizeGiB":20`,
		`you       PATCH   databases/orders         200  {"spec":{"sizeGiB":20}}`,
		`=== 3\. Deleting it`,
		`INFO  Dropping the database`,
		`\(deleted\)`,
		`you       DELETE  databases/orders         200`,
		`operator  PATCH   databases/orders         200  {"metadata":{"finalizers":\[\]`,
		`=== Your turn`,
		`export KUBECONFIG=/`,
		`kubectl delete database orders`,
		`INFO  A new database`,
	} {
		p.waitFor(text)
	}
	p.Consistently(p.ended).WithTimeout(time.Second).ShouldNot(Receive())
	p.stopAndWait()
}

func TestDemo_EndsWhenInterrupted(t *testing.T) {
	for moment, cluster := range map[string]string{"Starting etcd": own, "Building the operator": memory, "Starting the operator": memory, "kubectl create": memory} {
		t.Run(moment, func(t *testing.T) {
			p := begin(t, run{cluster: cluster, demo: true})
			p.waitFor(moment)
			p.stop()
			p.Eventually(p.ended).Should(Receive(MatchError(errInterrupted)))
		})
	}
}

// The example 06-peering runs in two terminals. The first terminal starts the control plane, and the second terminal uses it.
func TestExample_SecondOperator(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "unused"))
	cluster := begin(t, run{name: "06-peering", cluster: own})
	cluster.waitFor("only for this example: https://127.0.0.1:")
	cluster.waitFor("Sample ClusterKopfPeering default: created")
	path := regexp.MustCompile(`export KUBECONFIG=(\S+)`)
	cluster.waitFor(path.String())
	cluster.waitFor("Watching")
	t.Setenv("KUBECONFIG", path.FindStringSubmatch(string(cluster.output.Contents()))[1])

	laptop := begin(t, run{name: "06-peering", cluster: kubeconfig, args: []string{"--dev"}})
	laptop.waitFor("Sample ClusterKopfPeering default: exists already, unchanged")
	laptop.waitFor("Reconnecting")
	cluster.waitFor("Paused")
	laptop.stopAndWait()
	cluster.waitFor("Resumed")
	cluster.stopAndWait()
}

// Enter stops and restarts the operator. The cluster continues to run.
func TestExample_Restart(t *testing.T) {
	input, keyboard := io.Pipe()
	t.Cleanup(func() { _ = keyboard.Close() })
	p := begin(t, run{name: "05-handlers", cluster: own, input: input})
	p.waitFor("Handled .*\"reason\": \"create\"")
	for _, text := range []string{"The operator is stopped", "Monitoring the website .*\"cause\": \"resume\""} {
		_, err := keyboard.Write([]byte("\n"))
		p.Expect(err).NotTo(HaveOccurred())
		p.waitFor(text)
	}
	p.stopAndWait()
}

func TestFind_InvalidArguments(t *testing.T) {
	for name, c := range map[string]struct {
		run
		says string
	}{
		"unknown example":              {run{name: "07", cluster: own}, `unknown example "07"`},
		"unknown cluster":              {run{name: "07-subhandlers", cluster: "prod"}, `unknown cluster "prod"`},
		"demo with a name":             {run{name: "07-subhandlers", cluster: own, demo: true}, "-demo needs -cluster=memory or -cluster=own, and no name"},
		"context with the own cluster": {run{name: "07-subhandlers", cluster: own, context: "prod"}, "needs CLUSTER=kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			c.out = gbytes.NewBuffer()
			NewWithT(t).Expect(c.find(t.Context())).To(MatchError(ContainSubstring(c.says)))
		})
	}
	t.Run("missing kubeconfig", func(t *testing.T) {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nothing"))
		p := begin(t, run{name: "08-events", cluster: kubeconfig})
		p.Eventually(p.ended).Should(Receive(MatchError(And(ContainSubstring(`no context ""`), ContainSubstring(os.Getenv("KUBECONFIG"))))))
	})
}

// make passes its variables to the command, and builds no control plane for invalid arguments.
func TestMake_PassesVariables(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "06-peering         two operators"},
		{[]string{"NAME=nope"}, `unknown example "nope"`},
		{[]string{"NAME=01-minimal", "CONTEXT=prod"}, "needs CLUSTER=kubeconfig"},
	} {
		out, err := exec.CommandContext(t.Context(), "make", append([]string{"-C", "../..", "--no-print-directory", "example"}, c.args...)...).CombinedOutput()
		NewWithT(t).Expect(err == nil).To(Equal(c.args == nil), string(out))
		NewWithT(t).Expect(string(out)).To(And(ContainSubstring(c.says), Not(ContainSubstring("control plane: "))))
	}
}

// The command can read the files of all examples in the README, and finds commands to try. The tests in examples/ run the operators.
func TestCatalog(t *testing.T) {
	g := NewWithT(t)
	all, err := catalog.All(filepath.Join("..", ".."))
	g.Expect(err).NotTo(HaveOccurred())
	var listed []string
	for _, e := range all {
		listed = append(listed, e.Name)
		_, err := e.CRDs()
		g.Expect(err).NotTo(HaveOccurred(), e.Name)
		samples, err := e.Objects("samples")
		g.Expect(err).NotTo(HaveOccurred(), e.Name)
		g.Expect(samples).NotTo(BeEmpty(), e.Name)
		commands, err := e.Commands()
		g.Expect(err).NotTo(HaveOccurred(), e.Name)
		g.Expect(strings.Join(commands, "\n")).To(Or(ContainSubstring("kubectl "), ContainSubstring("curl ")), e.Name)
	}
	entries, err := os.ReadDir(filepath.Join("..", "..", "examples"))
	g.Expect(err).NotTo(HaveOccurred())
	var folders []string
	for _, entry := range entries {
		if entry.IsDir() {
			folders = append(folders, entry.Name())
		}
	}
	g.Expect(listed).To(ConsistOf(folders), "the README must list all folders of examples/")
}
