package examples

import (
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

var helmTools = flag.String("helm-tools", "", "absolute path of a folder with controller-gen, kubebuilder and helm; the test of the Helm chart needs them")

// The commands in the section about Helm of the README. Their test needs tools that take minutes to build.
const (
	writeChart     = "IMG=registry.example.com/shop:v0.1.0 kubebuilder edit --plugins=helm/v2-alpha"
	lintChart      = "helm lint --strict dist/chart"
	renderChart    = "helm template shop dist/chart --namespace shop-system > dist/shop.yaml"
	installChart   = "helm upgrade --install shop dist/chart --namespace shop-system --create-namespace"
	uninstallChart = "helm uninstall shop --namespace shop-system"
)

var helmCommands = []string{writeChart, lintChart, renderChart, installChart, uninstallChart}

// kubebuilder must write a chart with the objects of the manifests, and Helm must install and uninstall it, as the README describes.
func TestKubebuilder_HelmChart(t *testing.T) {
	if *helmTools == "" {
		t.Skip("needs kubebuilder and helm: make test-helm")
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
	e := prepareChart(t, cp)

	_, err = e.terminal.Type(t.Context(), "make -o manifests -o generate build-installer KUSTOMIZE=false")
	e.Expect(err).To(HaveOccurred(), "build-installer hides an error of kustomize, so kubebuilder would write an empty chart")
	e.run(writeChart)
	e.run(lintChart)

	// With the roles for users, the chart has all objects of the manifests.
	e.run(renderChart, "--set rbac.helpers.enabled=true")
	rendered := e.fileObjects("dist/shop.yaml")
	e.checkManagerRole(rendered)
	want, got := e.comparable(e.fileObjects("dist/install.yaml")), e.comparable(rendered)
	e.Expect(slices.Sorted(maps.Keys(got))).To(Equal(slices.Sorted(maps.Keys(want))), "the chart and the manifests must have the same objects")
	for name := range want {
		e.Expect(cmp.Diff(want[name], got[name])).To(BeEmpty(), "%s: the manifests (-) differ from the chart (+)", name)
	}

	// Objects with all options must be valid, and be in the namespace of the release.
	e.makeNamespace("other")
	e.run(renderChart, "--namespace other --set rbac.helpers.enabled=true --set networkPolicy.enabled=true --set metrics.secure=false")
	for _, obj := range e.fileObjects("dist/shop.yaml") {
		e.Expect(obj.GetNamespace()).To(BeElementOf("", "other"))
	}
	_, err = e.terminal.Type(t.Context(), "kubectl apply --dry-run=server -f dist/shop.yaml")
	e.Expect(err).NotTo(HaveOccurred())

	e.run(installChart)
	deployment := &appsv1.Deployment{}
	name := client.ObjectKey{Namespace: "shop-system", Name: "shop-controller-manager"}
	e.Expect(e.client.Get(t.Context(), name, deployment)).To(Succeed())
	e.Expect(deployment.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example.com/shop:v0.1.0"))
	e.run(uninstallChart)
	e.Eventually(func() bool { return apierrors.IsNotFound(e.client.Get(t.Context(), name, deployment)) }).Should(BeTrue())
	crds, err := folderOf(e.name).CRDs()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(crds).NotTo(BeEmpty())
	for _, crd := range crds {
		kept := &apiextensionsv1.CustomResourceDefinition{}
		e.Expect(e.client.Get(t.Context(), client.ObjectKeyFromObject(crd), kept)).To(Succeed())
		e.Expect(kept.DeletionTimestamp).To(BeNil(), "helm uninstall deletes %s", crd.Name)
	}
}

// prepareChart copies the project into a temporary folder, in which commands are executed.
func prepareChart(t *testing.T, cp *controlplane.ControlPlane) *example {
	folder := filepath.Join(t.TempDir(), "shop")
	e := &example{Gomega: NewWithT(t), t: t, name: "kubebuilder", cp: cp, executed: map[string]bool{}}
	e.SetDefaultEventuallyTimeout(timeout)
	assets, err := controlplane.Assets()
	e.Expect(err).NotTo(HaveOccurred())
	e.terminal = doctest.Terminal{Folder: folder, Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), Programs: []string{assets, *helmTools}}
	e.Expect(cp.WriteKubeconfig(e.terminal.Kubeconfig)).To(Succeed())
	e.client, err = client.New(cp.Config, client.Options{})
	e.Expect(err).NotTo(HaveOccurred())

	e.Expect(os.CopyFS(folder, os.DirFS(e.name))).To(Succeed())
	e.Expect(os.RemoveAll(filepath.Join(folder, "dist"))).To(Succeed())
	root, err := filepath.Abs("..")
	e.Expect(err).NotTo(HaveOccurred())
	edit := exec.CommandContext(t.Context(), "go", "mod", "edit", "-replace=github.com/kopf-runtime/kopf-runtime="+root)
	edit.Dir = folder
	out, err := edit.CombinedOutput()
	e.Expect(err).NotTo(HaveOccurred(), string(out))
	// kubebuilder calls make, which must use the pinned tool and none of the options of "make test-helm".
	t.Setenv("CONTROLLER_GEN", filepath.Join(*helmTools, "controller-gen"))
	t.Setenv("MAKEFLAGS", "")
	// Settings and plugins of the user's Helm must not have an effect.
	for _, variable := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(variable, t.TempDir())
	}
	return e
}

// fileObjects returns the objects in a file with several documents.
func (e *example) fileObjects(path string) (objects []*unstructured.Unstructured) {
	e.t.Helper()
	file, err := os.Open(filepath.Join(e.terminal.Folder, path))
	e.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		e.Expect(err).NotTo(HaveOccurred())
		if len(obj.Object) > 0 {
			objects = append(objects, obj)
		}
	}
	e.Expect(objects).NotTo(BeEmpty(), "%s has no objects", path)
	return objects
}

// comparable returns copies of the objects by kind and name, without the namespace object, which Helm creates, and without the labels, annotations and
// defaults that the chart adds.
func (e *example) comparable(objects []*unstructured.Unstructured) map[string]any {
	e.t.Helper()
	byName := map[string]any{}
	for _, obj := range objects {
		if obj.GetKind() == "Namespace" {
			continue
		}
		obj = obj.DeepCopy()
		for _, path := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
			for _, added := range [][]string{
				{"labels", "helm.sh/chart"}, {"labels", "app.kubernetes.io/instance"}, {"labels", "app.kubernetes.io/managed-by"},
				{"annotations", "helm.sh/resource-policy"},
			} {
				unstructured.RemoveNestedField(obj.Object, append(slices.Clone(path), added...)...)
			}
		}
		if containers, found, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers"); found {
			container := containers[0].(map[string]any)
			delete(container, "imagePullPolicy")
			slices.SortFunc(container["args"].([]any), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			e.Expect(unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers")).To(Succeed())
		}
		byName[obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()] = obj.Object
	}
	return byName
}

// checkManagerRole checks that the rules of the manager are those of the role in the repository.
func (e *example) checkManagerRole(rendered []*unstructured.Unstructured) {
	e.t.Helper()
	find := func(objects []*unstructured.Unstructured, name string) any {
		at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" && o.GetName() == name })
		e.Expect(at).To(BeNumerically(">=", 0), "there is no ClusterRole %s", name)
		return objects[at].Object["rules"]
	}
	want := find(e.manifests("rbac"), "manager-role")
	e.Expect(want).NotTo(BeEmpty())
	e.Expect(cmp.Diff(want, find(rendered, "shop-manager-role"))).To(BeEmpty(), "config/rbac/role.yaml (-) differs from the chart (+)")
}
