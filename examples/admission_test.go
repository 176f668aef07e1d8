package examples

import (
	"net"
	"strings"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func admission(e *example) {
	photos, wrong := e.sample("photos"), e.sample("wrong")
	_, port, err := net.SplitHostPort(freeAddress(e))
	e.Expect(err).NotTo(HaveOccurred())
	e.start("-port=" + port)
	e.Eventually(func() error { // wait until the API server uses the webhook configurations
		return e.client.Create(e.t.Context(), wrong.manifest.DeepCopy(), client.DryRunAll)
	}).Should(Satisfy(apierrors.IsInvalid))
	e.Eventually(func() (any, error) { // the API server loads the configurations of mutating and of validating handlers separately
		dry := photos.manifest.DeepCopy()
		err := e.client.Create(e.t.Context(), dry, client.DryRunAll)
		return dry.Object["spec"], err
	}).Should(HaveKeyWithValue("region", "amsterdam"))

	output := e.runFailing("kubectl apply -f config/samples")
	e.waitForLog(`Provisioning the bucket`)
	e.Expect(photos.get("spec")).To(Equal(map[string]any{"sizeGiB": int64(10), "region": "amsterdam", "public": true}))
	e.Eventually(photos.field("status", "url")).Should(Equal("https://photos.amsterdam.example.com"))
	e.waitForLog(`Handled`, `"reason": "create"`)
	e.Eventually(e.countLog(`Recorded`, `"operation": "CREATE"`)).Should(Equal(2), "audit must also record rejected requests")
	noted := e.countLog(`Recorded`)()
	e.run("kubectl label bucket photos team=web --dry-run=server")
	e.waitForLog(`Dry run; nothing is recorded`, `"operation": "UPDATE"`)
	e.Expect(e.countLog(`Recorded`)()).To(Equal(noted))

	output += e.runFailing("kubectl apply -f config/samples/wrong.yaml")
	output += e.runFailing(`kubectl patch bucket photos --type=merge -p '{"spec":{"region":"mumbai"}}'`)
	output += e.runFailing("kubectl delete bucket photos")
	const warning = "Warning: anyone can read the bucket"
	e.Expect(read(e.t, e.name, "README.md")).To(ContainSubstring(warning))
	shown := warning + "\n" + e.outputInReadme("kubectl apply -f config/samples/wrong.yaml") + e.outputInReadme("kubectl delete bucket photos")
	for line := range strings.Lines(shown) {
		e.Expect(output).To(ContainSubstring(strings.TrimSpace(line)))
	}

	e.run("kubectl label bucket photos protected-")
	e.run("kubectl delete bucket photos")
	e.waitForLog(`Recorded`, `"operation": "DELETE"`)
	e.run("kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations 17-admission.example.com -o yaml")
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "17-admission.example.com"}}
	e.Expect(e.client.Get(e.t.Context(), client.ObjectKeyFromObject(configuration), configuration)).To(Succeed())
	e.stop()
	err = e.client.Get(e.t.Context(), client.ObjectKeyFromObject(configuration), configuration)
	e.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the configuration still exists: %v", err)
}
