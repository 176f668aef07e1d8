package examples

import (
	"net"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func admission(e *example) {
	photos, wrong := e.sample("photos"), e.sample("wrong")
	_, port, err := net.SplitHostPort(freeAddress(e))
	e.Expect(err).NotTo(HaveOccurred())
	e.start("-port=" + port)
	e.Eventually(func() error { // until the API server has heard of the configurations
		return e.client.Create(e.t.Context(), wrong.is.DeepCopy(), client.DryRunAll)
	}).Should(Satisfy(apierrors.IsInvalid))

	told := photos.warned()
	e.logs(`Furnishing the bucket`)
	e.Expect(photos.get("spec")).To(Equal(map[string]any{"sizeGiB": int64(10), "region": "amsterdam", "public": true}))
	e.Eventually(photos.field("status", "url")).Should(Equal("https://photos.amsterdam.example.com"))
	e.logs(`Handled`, `"reason": "create"`)
	noted := e.count(`Noted`)()
	e.Expect(e.client.Patch(e.t.Context(), photos.is.DeepCopy(),
		client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"team":"web"}}}`)), client.DryRunAll)).To(Succeed())
	e.logs(`It is a dry run: nothing is noted`, `"operation": "UPDATE"`)
	e.Expect(e.count(`Noted`)()).To(Equal(noted))

	err = e.client.Create(e.t.Context(), wrong.is.DeepCopy())
	e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	e.Eventually(e.count(`Noted`, `"operation": "CREATE"`)).Should(Equal(2), "those that were refused, too")
	e.Expect(err.(apierrors.APIStatus).Status().Details.Causes).To(ConsistOf(
		HaveField("Field", "spec.sizeGiB"), HaveField("Field", "spec.region")))
	told = append(told, causes(err)...)
	err = e.client.Patch(e.t.Context(), photos.is.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"region":"mumbai"}}`)))
	e.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	told = append(told, causes(err)...)
	err = e.client.Delete(e.t.Context(), photos.is.DeepCopy())
	e.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	told = append(told, err.Error())
	for _, text := range told {
		e.Expect(read(e.t, e.name, "README.md")).To(ContainSubstring(text))
	}

	photos.patch(`{"metadata":{"labels":{"protected":null}}}`)
	photos.delete()
	e.logs(`Noted`, `"operation": "DELETE"`)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "17-admission.example.com"}}
	e.Expect(e.client.Get(e.t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
	e.stop()
	err = e.client.Get(e.t.Context(), client.ObjectKeyFromObject(configuration), configuration)
	e.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is still there: %v", err)
}

// warned creates the object, and returns what the API server warns of.
func (o object) warned() []string {
	o.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	o.Expect(err).NotTo(HaveOccurred())
	heard := &warnings{}
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	o.Expect(err).NotTo(HaveOccurred())
	o.Expect(c.Create(o.t.Context(), o.is.DeepCopy())).To(Succeed())
	o.Expect(heard.texts).NotTo(BeEmpty())
	return heard.texts
}

// warnings are collected as kubectl prints them.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.texts = append(w.texts, "Warning: "+text)
}

// causes are what an invalid object is told of, as kubectl prints them.
func causes(err error) (lines []string) {
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		lines = append(lines, cause.Field+": "+cause.Message)
	}
	return lines
}
