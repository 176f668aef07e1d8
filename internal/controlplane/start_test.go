package controlplane

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const gadgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.test.example.com}
spec:
  group: test.example.com
  scope: Namespaced
  names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func widgets() *apiextensionsv1.CustomResourceDefinition {
	loose := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.test.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "test.example.com",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &loose,
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{
					Status: &apiextensionsv1.CustomResourceSubresourceStatus{},
				},
			}},
		},
	}
}

func thing(kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("test.example.com/v1")
	object.SetKind(kind)
	object.SetNamespace("default")
	object.SetName(name)
	return object
}

func TestStartAndStop(t *testing.T) {
	g := NewWithT(t)
	tmp := needServers(t)
	path := filepath.Join(t.TempDir(), "gadgets.yaml")
	g.Expect(os.WriteFile(path, []byte(gadgets), 0o600)).To(Succeed())
	given, untouched := widgets(), widgets()

	began := time.Now()
	cp, err := Start(Options{
		CRDPaths: []string{path},
		CRDs:     []*apiextensionsv1.CustomResourceDefinition{given},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = cp.Stop() })
	t.Log("started in", time.Since(began))

	g.Expect(given).To(Equal(untouched))
	g.Expect(cp.Config.QPS).To(BeNumerically("<", 0))
	c, err := client.New(cp.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{})).To(Succeed())
	g.Expect(c.Create(t.Context(), thing("Gadget", "one"))).To(Succeed())
	g.Expect(c.Create(t.Context(), thing("Widget", "two"))).To(Succeed())
	_, err = cp.AuditSinceStart().Next()
	g.Expect(err).To(MatchError(ContainSubstring("Options{Audit: true}")))

	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, []byte("of before"), 0o644)).To(Succeed())
	g.Expect(cp.WriteKubeconfig(kubeconfig)).To(Succeed())
	info, err := os.Stat(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
	g.Expect(entries(t, filepath.Dir(kubeconfig))).To(Equal([]string{"kubeconfig"}))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	other, err := client.New(config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "two"}, thing("Widget", ""))).
		To(Succeed())
	g.Expect(cp.WriteKubeconfig(filepath.Join(tmp, "no", "kubeconfig"))).
		To(MatchError(ContainSubstring("is " + filepath.Join(tmp, "no") + " a writable directory?")))

	g.Expect(processes(t, tmp)).To(HaveLen(3), "etcd, kube-apiserver and the reaper")
	watching, err := client.NewWithWatch(cp.Config, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())
	watch, err := watching.Watch(t.Context(), &corev1.ConfigMapList{})
	g.Expect(err).NotTo(HaveOccurred())
	defer watch.Stop()
	began = time.Now()
	g.Expect(cp.Stop()).To(Succeed())
	t.Log("stopped in", time.Since(began))
	g.Expect(time.Since(began)).To(BeNumerically("<", stopTimeout/2), "time of Stop with an open watch")
	g.Expect(cp.Stop()).To(Succeed())
	g.Expect(processes(t, tmp)).To(BeEmpty())
	g.Expect(entries(t, tmp)).To(BeEmpty())
	_, err = cp.Writes(t.Context(), "widgets", "")
	g.Expect(err).To(MatchError(ContainSubstring("was the control plane stopped?")))
	g.Expect((*ControlPlane)(nil).Stop()).To(Succeed())
}

func TestStart_SeveralControlPlanes(t *testing.T) {
	g := NewWithT(t)
	tmp := needServers(t)
	var wait sync.WaitGroup
	planes, errs := make([]*ControlPlane, 2), make([]error, 2)
	for i := range planes {
		wait.Go(func() { planes[i], errs[i] = Start(Options{}) })
	}
	wait.Wait()
	t.Cleanup(func() {
		for _, cp := range planes {
			_ = cp.Stop()
		}
	})
	g.Expect(errs).To(HaveEach(Succeed()))
	g.Expect(planes[0].Config.Host).NotTo(Equal(planes[1].Config.Host))

	g.Expect(planes[0].Stop()).To(Succeed())
	_, err := planes[1].Writes(t.Context(), "configmaps", "")
	g.Expect(err).NotTo(HaveOccurred(), "the other control plane must still run")
	g.Expect(planes[1].Stop()).To(Succeed())
	g.Expect(processes(t, tmp)).To(BeEmpty())
	g.Expect(entries(t, tmp)).To(BeEmpty())
}

func TestStart_ErrorContainsTheLog(t *testing.T) {
	g := NewWithT(t)
	tmp := needServers(t)
	_, err := Start(Options{Args: map[string][]string{"no-such-flag": {"1"}}})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("The log of kube-apiserver ends with"),
		ContainSubstring("unknown flag: --no-such-flag"),
	)))
	g.Expect(err).NotTo(MatchError(errPortTaken))

	_, err = Start(Options{CRDPaths: []string{"no/such/folder"}})
	g.Expect(err).To(MatchError(And(
		ContainSubstring("check Options.CRDPaths"),
		ContainSubstring("no/such/folder"),
	)))

	g.Expect(processes(t, tmp)).To(BeEmpty())
	g.Expect(entries(t, tmp)).To(BeEmpty())
}

func TestStart_RetriesWhenAPortIsTaken(t *testing.T) {
	g := NewWithT(t)
	tmp := needServers(t)
	assets := t.TempDir()
	count := filepath.Join(t.TempDir(), "count")
	script := "#!/bin/sh\n[ \"$1\" = --help ] && exit\necho try >>" + "'" + count + "'" +
		"\necho 'listen tcp 127.0.0.1:1: bind: address already in use'\nexit 1\n"
	for _, name := range []string{"etcd", "kube-apiserver"} {
		g.Expect(os.WriteFile(filepath.Join(assets, name), []byte(script), 0o755)).To(Succeed())
	}
	t.Setenv(envAssets, assets)
	_, err := Start(Options{})
	g.Expect(err).To(MatchError(errPortTaken))
	g.Expect(os.ReadFile(count)).To(BeEquivalentTo("try\ntry\ntry\n"))
	g.Expect(entries(t, tmp)).To(BeEmpty())
}

func TestOptions_Check(t *testing.T) {
	for flag, want := range map[string]string{
		"--v":               "remove the dashes",
		"etcd-servers":      "this package sets it",
		"audit-policy-file": "this package sets it",
	} {
		_, err := Start(Options{Audit: true, Args: map[string][]string{flag: {"x"}}})
		NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(flag), ContainSubstring(want))))
	}
	NewWithT(t).Expect(Options{Args: map[string][]string{"audit-policy-file": {"x"}}}.check()).To(Succeed())
}
