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

// does types a command of the README, with what is to be added here, and returns what it prints.
func (e *example) does(command string, here ...string) string {
	e.t.Helper()
	out, err := e.types(command, here...)
	e.Expect(err).NotTo(HaveOccurred())
	return out
}

// fails types a command of the README that has to fail, and returns what it prints.
func (e *example) fails(command string) string {
	e.t.Helper()
	out, err := e.types(command)
	e.Expect(err).To(HaveOccurred(), "%s succeeds:\n%s", command, out)
	return out
}

func (e *example) types(command string, here ...string) (string, error) {
	e.t.Helper()
	e.Expect(e.commands()).To(ContainElement(command), "the README has no such command")
	e.typed[command] = true
	return e.terminal.Type(e.t.Context(), strings.Join(append([]string{command}, here...), " "))
}

// shown is what the README shows after a command.
func (e *example) shown(command string) string {
	e.t.Helper()
	steps, err := doctest.Steps(filepath.Join(e.name, "README.md"))
	e.Expect(err).NotTo(HaveOccurred())
	at := slices.IndexFunc(steps, func(s doctest.Step) bool { return slices.Contains(s.Commands(), command) })
	e.Expect(at).To(And(BeNumerically(">=", 0), BeNumerically("<", len(steps)-1)), "the README does not show what %q prints", command)
	return steps[at+1].Text
}

// commands are those of the README, and of the page about the example, if there is one.
func (e *example) commands() (all []string) {
	for _, page := range append(slices.Clone(alsoRead[e.name]), filepath.Join(e.name, "README.md")) {
		steps, err := doctest.Steps(page)
		e.Expect(err).NotTo(HaveOccurred())
		for _, step := range steps {
			all = append(all, step.Commands()...)
		}
	}
	e.Expect(all).NotTo(BeEmpty(), "the README has no commands")
	return all
}

// alsoRead are other pages about examples.
var alsoRead = map[string][]string{"18-conditions": {theDay}}

// notTyped begin commands that walks do in Go instead, as they have ports, processes or clients of their own for it.
var notTyped = []string{"make ", "go ", "cd ", "curl ", "pkill ", "POD_ID="}

// typedAll makes sure that no command of the README was left out.
func (e *example) typedAll() {
	e.t.Helper()
	for _, command := range e.commands() {
		if !e.typed[command] && !slices.ContainsFunc(notTyped, func(p string) bool { return strings.HasPrefix(command, p) }) {
			e.t.Errorf("the README has %q: do it", command)
		}
	}
}

// install makes the kinds of the example known, as its README says. A project of kubebuilder has its Makefile for it.
func (e *example) install() {
	e.t.Helper()
	crds, err := in(e.name).CRDs()
	e.Expect(err).NotTo(HaveOccurred())
	for _, command := range e.commands() {
		if strings.HasPrefix(command, "kubectl apply ") && strings.Contains(command, "config/crd") {
			e.does(command)
		}
	}
	_, err = envtest.InstallCRDs(e.cp.Config, envtest.CRDInstallOptions{CRDs: crds}) // it waits until they are served
	e.Expect(err).NotTo(HaveOccurred())
}

// cleanUp does the last commands of the README. Nobody empties namespaces here, and the walk may have deleted some of what they name.
func (e *example) cleanUp() {
	e.t.Helper()
	crds, err := in(e.name).CRDs()
	e.Expect(err).NotTo(HaveOccurred())
	for _, command := range e.commands() {
		if strings.HasPrefix(command, "kubectl delete ") && !e.typed[command] {
			e.does(command, "--ignore-not-found", "--wait=false")
		}
	}
	e.Expect(envtest.UninstallCRDs(e.cp.Config, envtest.CRDInstallOptions{CRDs: crds})).To(Succeed())
	for _, crd := range crds {
		e.Eventually(func() bool {
			err := e.client.Get(e.t.Context(), client.ObjectKeyFromObject(crd), &apiextensionsv1.CustomResourceDefinition{})
			return apierrors.IsNotFound(err)
		}).Should(BeTrue(), "something holds an object of %s", crd.Name)
	}
}
