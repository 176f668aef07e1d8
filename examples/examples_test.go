// Package examples runs the examples as their readers would, on a real API server.
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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

const (
	module      = "github.com/kopf-runtime/kopf-runtime/"
	lastHandled = "kopf.zalando.org/last-handled-configuration"
)

// An example is running.
type example struct {
	Gomega
	t        *testing.T
	operator *program.Program
	client   client.Client
	object   *unstructured.Unstructured // its sample
}

func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	watch(t)
	cp, err := controlplane.Start(controlplane.Options{
		CRDPaths: []string{"01-minimal/config/crd", "03-exceptions/config/crd"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("01-minimal", func(t *testing.T) { minimal(run(t, cp, "01-minimal", "database.yaml")) })
	t.Run("03-exceptions", func(t *testing.T) { exceptions(run(t, cp, "03-exceptions", "backup.yaml")) })
}

func minimal(e *example) {
	e.create()
	e.logs(`A new database`, `"sizeGiB":10`)
	e.logs(`Handled`, `"reason": "create"`)
	e.Expect(e.get("status", "provision", "host")).To(Equal("orders.db.example.com"))
	e.Expect(e.get("metadata", "finalizers")).To(HaveLen(1))
	e.Expect(e.get("metadata", "annotations", lastHandled)).To(ContainSubstring(`"sizeGiB":10`))

	e.patch(`{"spec":{"sizeGiB":20}}`)
	e.logs(`The database has changed`, `change spec.sizeGiB: 10 -> 20`)
	e.logs(`Handled`, `"reason": "update"`)
	e.Expect(e.get("metadata", "annotations", lastHandled)).To(ContainSubstring(`"sizeGiB":20`))

	e.delete()
	e.logs(`The database is to go`)
	e.logs(`Handled`, `"reason": "delete"`)
}

func exceptions(e *example) {
	e.create()
	e.Eventually(e.field("status", "problem")).Should(ContainSubstring("only s3 is supported"))
	e.Eventually(e.field("metadata", "annotations")).Should(And(
		HaveKeyWithValue("kopf.zalando.org/check", ContainSubstring(`"failure":true`)),
		HaveKeyWithValue("kopf.zalando.org/snapshot", And(
			ContainSubstring(`"success":false,"failure":false`), ContainSubstring(`"message":"the snapshot is not ready yet"`)))))

	e.logs(`"handler": "snapshot"`, `it will be called again`, `"retryAfter": "2s"`, `the snapshot is not ready yet`)
	e.logs(`"handler": "check"`, `failed for good`, `only s3 is supported`)
	e.logs(`"handler": "bill"`, `failed for good`, `no such customer`)
	e.logs(`"handler": "tidy"`, `ignored`, `nothing to tidy up`)
	e.logs(`"handler": "index"`, `it will be called again`, `panic: assignment to entry in nil map`, `main.go`)
	e.logs(`The backup is in the index`, `panic: assignment to entry in nil map`)
	e.logs(`"handler": "copy"`, `failed for good`, `gave up after 3 attempts: connection refused`)
	e.logs(`"handler": "announce"`, `failed for good`, `exceed the timeout of 5s`)
	e.logs(`The snapshot is ready`)
	e.logs(`Handled`, `"reason": "create"`, `"succeeded": 3, "failed": 4`)
	e.Expect(e.get("status", "snapshot")).To(Equal("orders-snapshot"))
	e.Expect(e.get("metadata", "annotations")).To(And(HaveLen(1), HaveKey(lastHandled)), "the records are gone")

	e.patch(`{"spec":{"target":"s3://archive/orders"}}`)
	e.logs(`Handled`, `"reason": "update"`, `"succeeded": 1, "failed": 0`)
	e.Expect(e.get("status", "problem")).To(BeNil())
	e.delete()
}

// run builds an example, and runs it until the end of the test.
func run(t *testing.T, cp *controlplane.ControlPlane, name, sample string) *example {
	e := &example{Gomega: NewWithT(t), t: t, object: &unstructured.Unstructured{}}
	e.SetDefaultEventuallyTimeout(30 * time.Second)
	e.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)

	text, err := os.ReadFile(filepath.Join(name, "config", "samples", sample))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(yaml.UnmarshalStrict(text, &e.object.Object)).To(Succeed())
	e.client, err = client.New(cp.Config, client.Options{})
	e.Expect(err).NotTo(HaveOccurred())

	file, kubeconfig := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), "kubeconfig")
	e.Expect(program.Build(t.Context(), module+"examples/"+name, file)).To(Succeed())
	e.Expect(cp.WriteKubeconfig(kubeconfig)).To(Succeed())
	e.operator, err = program.Start(file, "KUBECONFIG="+kubeconfig)
	e.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := e.operator.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, line := range e.operator.Lines() {
				t.Log(line)
			}
		}
	})
	return e
}

// watch looks at each source file. The go command notes what a test looks at, but not what its children
// read; without this, the result of the last run would be taken from the cache after a change.
func watch(t *testing.T) {
	for _, folder := range []string{".", "../pkg", "../internal", "../go.mod"} {
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

func (e *example) create() {
	e.t.Helper()
	e.Expect(e.client.Create(e.t.Context(), e.object.DeepCopy())).To(Succeed())
}

func (e *example) patch(document string) {
	e.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(document))
	e.Expect(e.client.Patch(e.t.Context(), e.object.DeepCopy(), patch)).To(Succeed())
}

// delete waits until the object is gone.
func (e *example) delete() {
	e.t.Helper()
	e.Expect(e.client.Delete(e.t.Context(), e.object.DeepCopy())).To(Succeed())
	e.Eventually(func() bool {
		err := e.client.Get(e.t.Context(), client.ObjectKeyFromObject(e.object), e.object.DeepCopy())
		return apierrors.IsNotFound(err)
	}).Should(BeTrue(), "it still exists")
}

// get reads a field of the object, nil if there is none.
func (e *example) get(path ...string) any {
	e.t.Helper()
	value, err := e.field(path...)()
	e.Expect(err).NotTo(HaveOccurred())
	return value
}

func (e *example) field(path ...string) func() (any, error) {
	return func() (any, error) {
		obj := e.object.DeepCopy()
		if err := e.client.Get(e.t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return nil, err
		}
		value, _, err := unstructured.NestedFieldNoCopy(obj.Object, path...)
		return value, err
	}
}

// logs waits for a line with all the words.
func (e *example) logs(words ...string) {
	e.t.Helper()
	e.Eventually(func() bool {
		return slices.ContainsFunc(e.operator.Lines(), func(line string) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
		})
	}).Should(BeTrue(), "the operator logs no line with %q", words)
}
