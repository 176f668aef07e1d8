package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

const long = 10 * time.Minute // limit for an empty build cache

// A commandRun is one run of the command.
type commandRun struct {
	*WithT
	output *gbytes.Buffer
	stop   func()
	ended  chan error
}

// begin runs an example until it ends, or until the end of the test.
func begin(t *testing.T, c choice) *commandRun {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(long)
	g.Expect(c.resolve(t.Context())).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	p := &commandRun{g, gbytes.NewBuffer(), cancel, make(chan error, 1)}
	go func() {
		p.ended <- run(ctx, screen.Plain(p.output), c)
		close(p.ended)
		_ = p.output.Close() // Close ends all waits for further output
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

// startKubectlCluster starts a control plane and makes it the cluster of kubectl.
func startKubectlCluster(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cp.WriteKubeconfig(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	return cp
}

// The command can read the files of all examples, and finds commands to try. The tests in examples/ run the operators.
func TestCatalog_ReadsEveryExample(t *testing.T) {
	all, err := catalog.All(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		t.Run(e.Name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := e.CRDs()
			g.Expect(err).NotTo(HaveOccurred())
			samples, err := e.Objects("samples")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(samples).NotTo(BeEmpty())
			commands, err := e.Commands()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(strings.Join(commands, "\n")).To(Or(ContainSubstring("kubectl "), ContainSubstring("curl ")))
		})
	}
}

// The catalog contains all examples in the README.
func TestCatalog_ListsEveryExample(t *testing.T) {
	g := NewWithT(t)
	all, err := catalog.All(filepath.Join("..", ".."))
	g.Expect(err).NotTo(HaveOccurred())
	var listed []string
	for _, e := range all {
		listed = append(listed, e.Name)
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

// The example 06-peering runs in two terminals. The first terminal starts the control plane, and the second terminal uses it.
func TestExample_SecondInstance(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "unused"))
	cluster := begin(t, choice{name: "06-peering", cluster: own})
	cluster.waitFor("a control plane on this machine, only for this example: https://127.0.0.1:")
	cluster.waitFor("Sample ClusterKopfPeering default: created")
	cluster.waitFor("Your turn")
	path := regexp.MustCompile(`CLUSTER=kubeconfig KUBECONFIG=(\S+)`)
	cluster.waitFor(path.String())
	cluster.waitFor("Watching")
	t.Setenv("KUBECONFIG", path.FindStringSubmatch(string(cluster.output.Contents()))[1])

	laptop := begin(t, choice{name: "06-peering", cluster: kubeconfig, args: []string{"--dev"}})
	laptop.waitFor("Sample ClusterKopfPeering default: exists already, unchanged")
	laptop.waitFor("Reconnecting")
	cluster.waitFor("Paused")
	laptop.stopAndWait()
	cluster.waitFor("Resumed")
	cluster.stopAndWait()
}

// Enter stops and restarts the operator. The cluster continues to run.
func TestExample_Restart(t *testing.T) {
	startKubectlCluster(t)
	input, keyboard := io.Pipe()
	t.Cleanup(func() { _ = keyboard.Close() })
	p := begin(t, choice{name: "05-handlers", cluster: kubeconfig, input: input})
	p.waitFor("Sample Website shop: created")
	p.waitFor("Handled .* reason=create")
	enter := func() {
		_, err := keyboard.Write([]byte("\n"))
		p.Expect(err).NotTo(HaveOccurred())
	}
	enter()
	p.waitFor("The operator is stopped")
	enter()
	p.waitFor("Monitoring the website .* cause=resume")
	p.stopAndWait()
}

func TestExample_InvalidArguments(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "nothing"))
	for name, c := range map[string]struct {
		choice
		says []string
	}{
		"unknown example":              {choice{name: "07", cluster: own}, []string{`unknown example "07"`, "07-subhandlers   one sub-handler for each item of a list"}},
		"unknown cluster":              {choice{name: "07-subhandlers", cluster: "prod"}, []string{`unknown cluster "prod"`, "own", "kubeconfig"}},
		"demo with a name":             {choice{name: "07-subhandlers", cluster: own, demo: true}, []string{"-demo needs -cluster=own and no name"}},
		"context with the own cluster": {choice{name: "07-subhandlers", cluster: own, context: "prod"}, []string{"needs CLUSTER=kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			err := c.resolve(t.Context())
			g.Expect(err).To(MatchError(errUsage))
			for _, text := range c.says {
				g.Expect(err).To(MatchError(ContainSubstring(text)))
			}
		})
	}
	t.Run("missing kubeconfig", func(t *testing.T) {
		p := begin(t, choice{name: "08-events", cluster: kubeconfig})
		p.Eventually(p.ended).Should(Receive(MatchError(And(ContainSubstring(`no context ""`), ContainSubstring(os.Getenv("KUBECONFIG"))))))
	})
}
