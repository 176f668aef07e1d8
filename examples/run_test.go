package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// timeout is the limit of each wait.
const timeout = 30 * time.Second

// An example is the state of a walkthrough.
type example struct {
	Gomega
	t      *testing.T
	name   string
	client client.Client
	cp     *controlplane.ControlPlane

	terminal doctest.Terminal // runs commands in the folder of the example
	executed map[string]bool  // executed commands of the README

	file, kubeconfig string
	user             string   // that the operator impersonates
	environment      []string // additional environment of the operator
	operator         *program.Program
	earlier          []string // log lines of stopped processes
}

// prepare builds an example. The operator runs with the permissions of the example's manifests, if it has any, until
// the end of the test.
func prepare(t *testing.T, cp *controlplane.ControlPlane, name string) *example {
	e := &example{
		Gomega: NewWithT(t), t: t, name: name, cp: cp, executed: map[string]bool{},
		file: filepath.Join(t.TempDir(), name), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
	}
	e.SetDefaultEventuallyTimeout(timeout)
	e.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	var err error
	e.client, err = client.New(cp.Config, client.Options{})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(cp.WriteKubeconfig(e.kubeconfig)).To(Succeed())
	assets, err := controlplane.Assets()
	e.Expect(err).NotTo(HaveOccurred())
	e.terminal = doctest.Terminal{Folder: name, Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), Programs: []string{assets}}
	e.Expect(cp.WriteKubeconfig(e.terminal.Kubeconfig)).To(Succeed())
	e.install()
	for _, obj := range e.manifests("rbac") {
		e.makeNamespace(obj.GetNamespace())
		e.Expect(e.client.Create(t.Context(), obj)).To(Succeed())
		if obj.GetKind() == rbacv1.ServiceAccountKind {
			e.impersonate("system:serviceaccount:" + obj.GetNamespace() + ":" + obj.GetName())
		}
	}
	e.Expect(program.Build(t.Context(), folderOf(name).Main(), e.file)).To(Succeed())
	t.Cleanup(e.cleanUpProcess)
	return e
}

// secondProcess returns the same operator for a second process.
func (e *example) secondProcess() *example {
	other := *e
	other.operator, other.earlier = nil, nil
	e.t.Cleanup(other.cleanUpProcess)
	return &other
}

func (e *example) cleanUpProcess() {
	e.stop()
	if e.t.Failed() {
		for _, line := range e.lines() {
			e.t.Log(line)
		}
	}
}

// makeNamespace creates a namespace that kustomize would create.
func (e *example) makeNamespace(name string) {
	if name == "" {
		return
	}
	err := e.client.Create(e.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	e.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
}

func (e *example) impersonate(user string) {
	e.user = user
	config, err := clientcmd.LoadFromFile(e.kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	for _, access := range config.AuthInfos {
		access.Impersonate = user
	}
	e.Expect(clientcmd.WriteToFile(*config, e.kubeconfig)).To(Succeed())
}

// start starts the operator, and returns when its workers run.
func (e *example) start(args ...string) {
	e.t.Helper()
	var err error
	e.operator, err = program.Start(e.file, args, append(e.environment, "KUBECONFIG="+e.kubeconfig)...)
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(e.operator.Lines).Should(ContainElement(ContainSubstring("Starting workers")))
}

// stop ends the operator. The method start can start it again.
func (e *example) stop() {
	e.t.Helper()
	if e.operator == nil {
		return
	}
	if err := e.operator.Stop(timeout); err != nil {
		e.t.Error(err)
	}
	e.recordEnd()
}

// kill ends the operator without a graceful shutdown.
func (e *example) kill() {
	e.t.Helper()
	e.Expect(e.operator.Kill()).To(Succeed())
	e.recordEnd()
}

// missingPermission is in the log line about a permission that the operator needs and does not have.
const missingPermission = "operator does not have a permission that it needs"

// recordEnd keeps the log of the process. The role of the example must grant all permissions, so a line about a missing one fails the test.
func (e *example) recordEnd() {
	e.t.Helper()
	for _, line := range e.operator.Lines() {
		if strings.Contains(line, missingPermission) {
			e.t.Errorf("the role of the example is incomplete: %s", line)
		}
	}
	e.earlier, e.operator = append(e.earlier, e.operator.Lines()...), nil
}

// lines returns all lines that the operator has logged.
func (e *example) lines() []string {
	if e.operator == nil {
		return e.earlier
	}
	return append(slices.Clip(e.earlier), e.operator.Lines()...)
}

// manifests returns the objects in a folder below config, or none if the folder is missing.
func (e *example) manifests(folder string) []*unstructured.Unstructured {
	e.t.Helper()
	objects, err := folderOf(e.name).Objects(folder)
	e.Expect(err).NotTo(HaveOccurred())
	return objects
}

// folderOf returns the folder of an example.
func folderOf(name string) catalog.Example { return catalog.Example{Name: name, Folder: name} }

// watch reads the state of each source file. The go command caches test results by the files that the test itself
// reads, but not by the files that its child processes read.
func watch(t *testing.T) {
	for _, folder := range []string{".", "../cmd", "../config", "../pkg", "../internal", "../go.mod"} {
		if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			_, err = os.Stat(path)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}
