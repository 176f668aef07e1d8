package guide

import (
	"bytes"
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// commands returns the commands of a page, in order.
func commands(t *testing.T, page string) (all []string) {
	t.Helper()
	for _, s := range steps(t, page) {
		all = append(all, s.Commands()...)
	}
	return all
}

// The test runs the commands of docs/deployment.md that remove an operator, in their order.
func TestUninstalling(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g, ctx := NewWithT(t), t.Context()
	g.SetDefaultEventuallyTimeout(patience)
	tool := buildTool(t, g)
	k8s := installDatabases(t, g)
	namespace(g, k8s, "databases-system")
	deployment := manifests(t, deploymentPage)["Deployment databases"]
	name := metav1.ObjectMeta{Name: "databases.example.com"}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name}
	for _, obj := range []client.Object{deployment, validating, mutating} {
		g.Expect(k8s.Create(ctx, obj)).To(Succeed())
	}
	t.Cleanup(func() { g.Expect(k8s.Delete(context.Background(), deployment)).To(Succeed()) })
	orders, photos := handledDatabase("orders"), handledDatabase("photos")
	g.Expect(k8s.Create(ctx, orders)).To(Succeed())
	g.Expect(k8s.Create(ctx, photos)).To(Succeed())
	now := func(obj client.Object) client.Object {
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		return obj
	}
	isBlocked := And(HaveField("GetFinalizers()", HaveLen(1)), HaveField("GetAnnotations()", HaveLen(2)))
	expectDeleted := func(obj client.Object) {
		t.Helper()
		g.Eventually(func() bool { return apierrors.IsNotFound(k8s.Get(ctx, client.ObjectKeyFromObject(obj), obj)) }).Should(BeTrue())
	}

	after := []func(out string){
		func(string) { expectDeleted(validating); expectDeleted(mutating) },
		func(string) {
			scaled := &appsv1.Deployment{}
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(deployment), scaled)).To(Succeed())
			g.Expect(scaled.Spec.Replicas).To(HaveValue(BeZero()))
		},
		func(string) { g.Expect(now(orders)).To(isBlocked, "the command must not change the object") },
		func(string) {
			for _, obj := range []client.Object{orders, photos} {
				g.Expect(now(obj)).To(And(HaveField("GetFinalizers()", BeEmpty()), HaveField("GetAnnotations()", BeEmpty())))
			}
			g.Expect(k8s.Delete(ctx, orders)).To(Succeed())
			expectDeleted(orders)
			orders = handledDatabase("orders") // the last command needs an object that waits for its finalizer
			g.Expect(k8s.Create(ctx, orders)).To(Succeed())
			g.Expect(k8s.Delete(ctx, orders)).To(Succeed())
			g.Expect(now(orders)).To(isBlocked)
		},
		func(string) { expectDeleted(orders) },
	}
	typed := commands(t, "../../docs/deployment.md")
	g.Expect(typed).To(HaveLen(len(after)), "the page has other commands; add their results to the test")
	for i, command := range typed {
		after[i](tool(command))
	}
}

// The commands of docs/troubleshooting.md show what the page says.
func TestTroubleshooting_Commands(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	tool := buildTool(t, g)
	k8s := installDatabases(t, g)
	g.Expect(k8s.Create(t.Context(), pythonDatabases(metav1.Now().Time)[2])).To(Succeed())
	orders := handledDatabase("orders")
	g.Expect(k8s.Create(t.Context(), orders)).To(Succeed())

	asked := commands(t, "../../docs/troubleshooting.md")
	g.Expect(asked).To(HaveLen(4), "the page has other commands; add their results to the test")
	g.Expect(tool(asked[0])).To(And(MatchRegexp(`Name: +orders\n`), MatchRegexp(`(?m)^Events: +<none>$`)))
	g.Expect(tool(asked[1])).To(And(ContainSubstring("orders"), ContainSubstring("resize.spec.size: due"), Not(ContainSubstring("photos"))))
	raw := &unstructured.Unstructured{}
	g.Expect(raw.UnmarshalJSON([]byte(tool(asked[2])))).To(Succeed())
	g.Expect(raw.GetAnnotations()).To(Equal(orders.GetAnnotations()))
	finished := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{
		"kopf.zalando.org/last-handled-configuration":"{\"spec\":{\"size\":10}}\n","kopf.zalando.org/resize.spec.size":null}}}`))
	for _, name := range []string{"orders", "photos"} {
		g.Expect(k8s.Patch(t.Context(), newDatabase(name, nil), finished)).To(Succeed())
	}
	_ = tool(asked[3]) // it ends because all handlers have finished
}

// handledDatabase returns an object in the middle of a cycle.
func handledDatabase(name string) *unstructured.Unstructured {
	return newDatabase(name, map[string]any{
		"kopf.zalando.org/last-handled-configuration": "{\"spec\":{\"size\":5}}\n",
		"kopf.zalando.org/resize.spec.size":           `{"started":"2026-05-01T12:00:00.000000+00:00","purpose":"update","retries":1,"success":false,"failure":false,"message":"busy"}`,
	})
}

// PEER-01: the operator reads the records in docs/peering.md, and the commands of the page have the described effect.
func TestCommandsOfPeering(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	tool := buildTool(t, g)
	options := envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}}
	_, err := envtest.InstallCRDs(cfg, options)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(envtest.UninstallCRDs(cfg, options)).To(Succeed()) })
	k8s, err := client.New(cfg, client.Options{})
	g.Expect(err).NotTo(HaveOccurred())

	meeting := &unstructured.Unstructured{}
	for _, s := range steps(t, "../../docs/peering.md") {
		if s.Language == "yaml" {
			g.Expect(meeting.Object).To(BeNil(), "the page must show exactly one object")
			g.Expect(yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(s.Text)), 4096).Decode(meeting)).To(Succeed())
		}
	}
	shown := meeting.Object["status"].(map[string]any)
	strict := client.WithFieldValidation(k8s, metav1.FieldValidationStrict)
	g.Expect(strict.Create(t.Context(), meeting)).To(Succeed()) // the kind has no status subresource
	g.Expect(shown).To(HaveLen(2))

	const goRun = "go tool kopf "
	var printed []string
	for _, command := range commands(t, "../../docs/peering.md") {
		g.Expect(command).To(HavePrefix(goRun))
		printed = append(printed, tool("kopf "+strings.TrimPrefix(command, goRun))) // the command is already built
	}
	g.Expect(printed).To(HaveLen(3), "the page has other commands; add their results to the test")
	for identity := range shown {
		g.Expect(printed[0]).To(MatchRegexp(`%s .* dead`, identity), "the records date from 2020")
	}
	g.Expect(printed[1]).To(MatchRegexp(`3600s .* live +moving the databases`))
	g.Expect(printed[2]).NotTo(ContainSubstring("moving the databases"))
}
