package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// patience is for all that is awaited.
const patience = 30 * time.Second

// An example is what the readers of its README have before them.
type example struct {
	Gomega
	t      *testing.T
	name   string
	client client.Client
	cp     *controlplane.ControlPlane

	terminal doctest.Terminal // of the reader, in the folder of the example
	typed    map[string]bool  // commands of the README

	file, kubeconfig string
	environment      []string // of the operator, besides
	operator         *program.Program
	earlier          []string // what it had logged when it was stopped
}

// prepare builds an example. Once it is started, it runs until the end of the test: with the rights that its
// manifests give, if there are any.
func prepare(t *testing.T, cp *controlplane.ControlPlane, name string) *example {
	e := &example{
		Gomega: NewWithT(t), t: t, name: name, cp: cp, typed: map[string]bool{},
		file: filepath.Join(t.TempDir(), name), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
	}
	e.SetDefaultEventuallyTimeout(patience)
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
	e.Expect(program.Build(t.Context(), in(name).Main(), e.file)).To(Succeed())
	t.Cleanup(e.end)
	return e
}

// another is for a second terminal: the same operator once more, as a process of its own.
func (e *example) another() *example {
	other := *e
	other.operator, other.earlier = nil, nil
	e.t.Cleanup(other.end)
	return &other
}

func (e *example) end() {
	e.stop()
	if e.t.Failed() {
		for _, line := range e.lines() {
			e.t.Log(line)
		}
	}
}

// makeNamespace is for manifests that are deployed by kustomize, which renames it.
func (e *example) makeNamespace(name string) {
	if name == "" {
		return
	}
	err := e.client.Create(e.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	e.Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
}

func (e *example) impersonate(user string) {
	config, err := clientcmd.LoadFromFile(e.kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	for _, access := range config.AuthInfos {
		access.Impersonate = user
	}
	e.Expect(clientcmd.WriteToFile(*config, e.kubeconfig)).To(Succeed())
}

// start runs the operator. It returns when that is at work: before, it would not end in good order.
func (e *example) start(args ...string) {
	e.t.Helper()
	var err error
	e.operator, err = program.Start(e.file, args, append(e.environment, "KUBECONFIG="+e.kubeconfig)...)
	e.Expect(err).NotTo(HaveOccurred())
	e.Eventually(e.operator.Lines).Should(ContainElement(ContainSubstring("Starting workers")))
}

// stop ends the operator, which may be started again.
func (e *example) stop() {
	e.t.Helper()
	if e.operator == nil {
		return
	}
	if err := e.operator.Stop(10 * time.Second); err != nil {
		e.t.Error(err)
	}
	e.ended()
}

// kill leaves the operator no time to say goodbye.
func (e *example) kill() {
	e.t.Helper()
	e.Expect(e.operator.Kill()).To(Succeed())
	e.ended()
}

func (e *example) ended() {
	e.earlier, e.operator = append(e.earlier, e.operator.Lines()...), nil
}

// lines are all that the operator has logged so far.
func (e *example) lines() []string {
	if e.operator == nil {
		return e.earlier
	}
	return append(slices.Clip(e.earlier), e.operator.Lines()...)
}

// manifests are the objects in a folder below config, none if there is no such folder.
func (e *example) manifests(folder string) []*unstructured.Unstructured {
	e.t.Helper()
	objects, err := in(e.name).Objects(folder)
	e.Expect(err).NotTo(HaveOccurred())
	return objects
}

// in is what the folder of an example has.
func in(name string) catalog.Example { return catalog.Example{Name: name, Folder: name} }

// watch looks at each source file. The go command notes what a test looks at, but not what its children
// read; without this, the result of the last run would be taken from the cache after a change.
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
