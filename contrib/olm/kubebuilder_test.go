package olm_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kopf-runtime/kopf-runtime/contrib/olm"
)

var update = flag.Bool("update", false, "write the bundle in testdata/shop")

const (
	golden    = "testdata/shop"
	shopImage = "registry.example.com/shop:v0.1.0"
)

// shop returns the objects of the operator in examples/kubebuilder, as "kustomize build config/manifests" prints them.
func shop(t testing.TB) []client.Object {
	t.Helper()
	g := NewWithT(t)
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../examples/kubebuilder/config/manifests")
	g.Expect(err).NotTo(HaveOccurred())
	text, err := built.AsYaml()
	g.Expect(err).NotTo(HaveOccurred())
	objects, err := olm.ReadObjects(bytes.NewReader(text))
	g.Expect(err).NotTo(HaveOccurred())
	return objects
}

func shopOptions(objects []client.Object) olm.Options {
	return olm.Options{Package: "shop", Version: "0.1.0", Channels: []string{"stable"}, Image: shopImage, Objects: objects}
}

func TestWrite_KubebuilderExample(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "bundle")
	if *update {
		dir = golden
	}
	g.Expect(olm.Write(dir, shopOptions(shop(t)))).To(Succeed())
	g.Expect(cmp.Diff(folder(t, golden), folder(t, dir))).To(BeEmpty(), "if the change is intended, run 'go test -run KubebuilderExample -update'")
}

func TestValidate_KubebuilderExample(t *testing.T) {
	g := NewWithT(t)
	g.Expect(olm.Validate(golden)).To(Succeed())
	warnings, err := olm.Warnings(golden)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(warnings).To(BeEmpty())
}

// The bundle must pass all validators of operator-framework, including the one that Validate omits.
func TestValidate_KubebuilderExample_AllValidators(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("PATH", t.TempDir()) // without docker, the validator for multiple architectures reads no image
	bundle, err := manifests.GetBundleFromDir(golden)
	g.Expect(err).NotTo(HaveOccurred())
	found := 0
	for _, validator := range validation.AllValidators {
		for _, result := range validator.Validate(bundle.ObjectsToValidate()...) {
			g.Expect(result.Errors).To(BeEmpty())
			found++
		}
	}
	g.Expect(found).To(BeNumerically(">=", 10))
}

// folder returns the files in a folder, and the targets of symbolic links.
func folder(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if entry.Type()&fs.ModeSymlink != 0 {
			files[filepath.ToSlash(name)], err = os.Readlink(path)
			return err
		}
		text, err := os.ReadFile(path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return files
}
