package examples

import (
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// run executes a command of the README with additional arguments, and returns its output.
func (e *example) run(command string, here ...string) string {
	e.t.Helper()
	out, err := e.execute(command, here...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// runFailing executes a command of the README that must fail, and returns its output.
func (e *example) runFailing(command string) string {
	e.t.Helper()
	out, err := e.execute(command)
	e.Expect(err).To(HaveOccurred(), "%s succeeds:\n%s", command, out)
	return out
}

func (e *example) execute(command string, here ...string) (string, error) {
	e.t.Helper()
	e.Expect(e.commands()).To(ContainElement(command), "the README does not have this command")
	e.executed[command] = true
	return e.terminal.Type(e.t.Context(), strings.Join(append([]string{command}, here...), " "))
}

// outputInReadme returns the output that the README shows for a command.
func (e *example) outputInReadme(command string) string {
	e.t.Helper()
	steps, err := doctest.Steps(filepath.Join(e.name, "README.md"))
	e.Expect(err).NotTo(HaveOccurred())
	at := slices.IndexFunc(steps, func(s doctest.Step) bool { return slices.Contains(s.Commands(), command) })
	e.Expect(at).To(And(BeNumerically(">=", 0), BeNumerically("<", len(steps)-1)), "the README does not show the output of %q", command)
	return steps[at+1].Text
}

// commands returns the commands of the README and of the additional pages of the example.
func (e *example) commands() (all []string) {
	for _, page := range append(slices.Clone(additionalPages[e.name]), filepath.Join(e.name, "README.md")) {
		steps, err := doctest.Steps(page)
		e.Expect(err).NotTo(HaveOccurred())
		for _, step := range steps {
			all = append(all, step.Commands()...)
		}
	}
	e.Expect(all).NotTo(BeEmpty(), "the README has no commands")
	return all
}

// additionalPages are pages with more commands of an example.
var additionalPages = map[string][]string{"18-conditions": {dayInTheLife}}

// executedInGo are prefixes of commands that walkthroughs execute in Go, because these need separate ports, processes
// or clients.
var executedInGo = []string{"make ", "go ", "cd ", "curl ", "pkill ", "POD_ID="}

// checkAllCommandsExecuted checks that the walkthrough has executed all commands of the README.
func (e *example) checkAllCommandsExecuted() {
	e.t.Helper()
	for _, command := range e.commands() {
		if slices.Contains(helmCommands, command) {
			continue // TestKubebuilder_HelmChart executes it
		}
		if !e.executed[command] && !slices.ContainsFunc(executedInGo, func(p string) bool { return strings.HasPrefix(command, p) }) {
			e.t.Errorf("the walkthrough does not execute the command %q of the README", command)
		}
	}
}

// install creates the CRDs of the example, as its README describes. A kubebuilder project has its Makefile for this.
func (e *example) install() {
	e.t.Helper()
	crds, err := folderOf(e.name).CRDs()
	e.Expect(err).NotTo(HaveOccurred())
	for _, command := range e.commands() {
		if strings.HasPrefix(command, "kubectl apply ") && strings.Contains(command, "config/crd") {
			e.run(command)
		}
	}
	_, err = envtest.InstallCRDs(e.cp.Config, envtest.CRDInstallOptions{CRDs: crds}) // waits until the API server serves the CRDs
	e.Expect(err).NotTo(HaveOccurred())
}

// cleanUp executes the last commands of the README. No controller empties namespaces here, and the walkthrough may have
// deleted some of the objects.
func (e *example) cleanUp() {
	e.t.Helper()
	crds, err := folderOf(e.name).CRDs()
	e.Expect(err).NotTo(HaveOccurred())
	for _, command := range e.commands() {
		if strings.HasPrefix(command, "kubectl delete ") && !e.executed[command] {
			e.run(command, "--ignore-not-found", "--wait=false")
		}
	}
	e.Expect(envtest.UninstallCRDs(e.cp.Config, envtest.CRDInstallOptions{CRDs: crds})).To(Succeed())
	for _, crd := range crds {
		e.Eventually(func() bool {
			err := e.client.Get(e.t.Context(), client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "objects of %s are not deleted", crd.Name)
	}
}
