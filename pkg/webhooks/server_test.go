package webhooks_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

type (
	widgetRequest = webhooks.Request[*v1.Widget]
	looseRequest  = webhooks.Request[*unstructured.Unstructured]
)

// recorder collects the calls of handlers.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (s *recorder) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, text)
}

func (s *recorder) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.calls...)
}

func (s *recorder) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// warnings collects the warnings of the API server.
type warnings struct{ recorder }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.add(text) }

func clientWithWarnings(t *testing.T) (client.Client, *warnings) {
	w := &warnings{}
	config := rest.CopyConfig(cp.Config)
	config.WarningHandler = w
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

func widget(ns, name string, size int) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(size)}}}
	obj.SetGroupVersionKind(widgetGVK)
	obj.SetNamespace(ns)
	obj.SetName(name)
	return obj
}

func loose() *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(widgetGVK)
	return obj
}

// awaitHandlers waits until the API server calls the handlers.
func awaitHandlers(t *testing.T, op *operator, called *recorder) {
	t.Helper()
	NewWithT(t).Eventually(func() []string {
		_ = k8s.Create(t.Context(), widget(op.ns, "probe", 1), client.DryRunAll)
		return called.all()
	}).ShouldNot(BeEmpty(), op.log.String)
	called.reset()
}

// ADM-04, ADM-10, ADM-12, ADM-17, ADM-22, ADM-43: the API server denies, warns and allows as the handler decides. The
// handler receives the objects, the operation, the user and dryRun.
func TestServer_Validation(t *testing.T) {
	needServer(t)
	g, ctx, called := NewWithT(t), t.Context(), &recorder{}
	op := start(t, operatorConfig{hooks: []webhooks.Hook{
		webhooks.Validating(&v1.Widget{}, "size/x!", func(_ context.Context, req *widgetRequest) error {
			text := string(req.Operation)
			if req.DryRun {
				text += " dry"
			}
			if req.Header.Get("Content-Type") == "" || req.TLS == nil || req.User.Username == "" {
				text += " incomplete"
			}
			called.add(text)
			switch {
			case req.Operation == admissionv1.Delete && req.Object.Spec.Size > 5:
				return webhooks.Deny(http.StatusConflict, metav1.StatusReasonConflict, "too big to go")
			case req.Operation != admissionv1.Delete && req.Object.Spec.Size > 10:
				req.Warn("mind the size")
				return field.ErrorList{
					field.Invalid(field.NewPath("spec", "size"), req.Object.Spec.Size, "is too big"),
					field.Required(field.NewPath("spec", "color"), "for such a size"),
				}.ToAggregate()
			case req.Old != nil && req.Operation == admissionv1.Update && req.Old.Spec.Size > req.Object.Spec.Size:
				return errTest
			}
			req.Warn("fine")
			return nil
		}),
	}})
	awaitHandlers(t, op, called)
	c, w := clientWithWarnings(t)

	err := c.Create(ctx, widget(op.ns, "a", 11))
	g.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("is too big")))
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	g.Expect(causes).To(ConsistOf(
		metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.size", Message: "Invalid value: 11: is too big"},
		metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Field: "spec.color", Message: "Required value: for such a size"}))
	g.Expect(w.all()).To(Equal([]string{"mind the size"}))

	g.Expect(c.Create(ctx, widget(op.ns, "a", 7), client.DryRunAll)).To(Succeed())
	g.Expect(c.Create(ctx, widget(op.ns, "a", 7))).To(Succeed())
	g.Expect(w.all()).To(Equal([]string{"mind the size", "fine", "fine"}))

	smaller := widget(op.ns, "a", 6)
	err = c.Patch(ctx, smaller, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"size":6}}`)))
	g.Expect(apierrors.IsInternalError(err)).To(BeTrue(), "%v", err)
	g.Expect(err).NotTo(MatchError(ContainSubstring(errTest.Error())))
	g.Expect(op.log.String()).To(ContainSubstring(errTest.Error()))

	err = c.Delete(ctx, widget(op.ns, "a", 0))
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	g.Expect(err).To(MatchError(ContainSubstring("too big to go")))
	g.Expect(called.all()).To(Equal([]string{"CREATE", "CREATE dry", "CREATE", "UPDATE", "DELETE"}))
}

// ADM-13, ADM-14: the API server stores changes of handlers and keeps fields unknown to the Go type. Validating
// handlers receive the final object.
func TestServer_Mutation(t *testing.T) {
	needServer(t)
	g, ctx, called := NewWithT(t), t.Context(), &recorder{}
	op := start(t, operatorConfig{hooks: []webhooks.Hook{
		webhooks.Mutating(&v1.Widget{}, "defaults", func(_ context.Context, req *widgetRequest) error {
			if req.Object.Spec.Color == "" {
				req.Object.Spec.Color = "red"
			}
			return nil
		}),
		webhooks.Mutating(loose(), "mark", func(_ context.Context, req *looseRequest) error {
			req.Object.SetLabels(map[string]string{"marked": "yes"})
			return nil
		}),
		webhooks.Validating(&v1.Widget{}, "colors", func(_ context.Context, req *widgetRequest) error {
			called.add(req.Object.Spec.Color + " " + req.Object.Labels["marked"])
			return nil
		}),
		webhooks.Validating(&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Widget", APIVersion: v1.GroupVersion.String()}}, "metadata",
			func(_ context.Context, req *webhooks.Request[*metav1.PartialObjectMetadata]) error {
				called.add("metadata of " + req.Object.Name)
				return nil
			}),
	}})
	awaitHandlers(t, op, called)
	obj := widget(op.ns, "a", 1)
	unstructuredSet(obj, map[string]any{"deep": []any{int64(1), nil}}, "spec", "unknown")
	unstructuredSet(obj, int64(9007199254740993), "spec", "id")
	g.Eventually(func() []string {
		copied := obj.DeepCopy()
		g.Expect(k8s.Create(ctx, copied, client.DryRunAll)).To(Succeed())
		defer called.reset()
		return called.all()
	}).Should(ConsistOf("red yes", "metadata of a"), "want calls of all handlers")
	g.Expect(k8s.Create(ctx, obj)).To(Succeed())
	g.Expect(called.all()).To(ConsistOf("red yes", "metadata of a"))
	g.Expect(obj.Object["spec"]).To(Equal(map[string]any{
		"size": int64(1), "color": "red", "id": int64(9007199254740993),
		"unknown": map[string]any{"deep": []any{int64(1), nil}},
	}))
}

// ADM-05, ADM-06, ADM-07, ADM-20, ADM-21: the API server selects handlers by operation, subresource, labels, CEL
// conditions and namespace.
func TestServer_Selection(t *testing.T) {
	needServer(t)
	g, ctx, called := NewWithT(t), t.Context(), &recorder{}
	note := func(id string) func(context.Context, *looseRequest) error {
		return func(_ context.Context, req *looseRequest) error {
			called.add(id + " " + string(req.Operation) + " " + req.Subresource + " " + req.Object.GetKind())
			return nil
		}
	}
	validate := func(id string, opts ...webhooks.Option) webhooks.Hook {
		return webhooks.Validating(loose(), id, note(id), opts...)
	}
	op := start(t, operatorConfig{hooks: []webhooks.Hook{
		validate("plain"),
		validate("created", webhooks.Operations(admissionregistrationv1.Create)),
		validate("status", webhooks.Subresource("status")),
		validate("scale", webhooks.Subresource("scale")),
		validate("any", webhooks.Subresource("*")),
		validate("gold", webhooks.Label("tier", "gold", "silver")),
		validate("unlabelled", webhooks.NoLabel("tier")),
		validate("big", webhooks.MatchConditions(admissionregistrationv1.MatchCondition{
			Name: "big", Expression: "request.operation == 'DELETE' ? oldObject.spec.size > 100 : object.spec.size > 100",
		})),
		validate("elsewhere", webhooks.Namespaces("elsewhere")),
		webhooks.Mutating(loose(), "mutated", note("mutated")),
		webhooks.Mutating(loose(), "gone", func(ctx context.Context, req *looseRequest) error {
			req.Object.SetLabels(map[string]string{"in": "vain"})
			return note("gone")(ctx, req)
		}, webhooks.Operations(admissionregistrationv1.Delete)),
	}})
	awaitHandlers(t, op, called)
	g.Eventually(func() []string {
		called.reset()
		_ = k8s.Create(ctx, widget(op.ns, "probe", 1), client.DryRunAll)
		return called.all()
	}).Should(ConsistOf("plain CREATE  Widget", "created CREATE  Widget", "any CREATE  Widget", "unlabelled CREATE  Widget", "mutated CREATE  Widget"))
	called.reset()

	obj := widget(op.ns, "a", 101)
	obj.SetLabels(map[string]string{"tier": "gold"})
	g.Expect(k8s.Create(ctx, obj)).To(Succeed())
	g.Expect(called.all()).To(ConsistOf("plain CREATE  Widget", "created CREATE  Widget", "any CREATE  Widget",
		"gold CREATE  Widget", "big CREATE  Widget", "mutated CREATE  Widget"))
	called.reset()

	awaitCached(ctx, g, obj)
	g.Expect(k8s.Status().Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"size":1}}`)))).To(Succeed())
	g.Expect(called.all()).To(ConsistOf("status UPDATE status Widget", "any UPDATE status Widget"))
	called.reset()

	awaitCached(ctx, g, obj)
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
	g.Expect(k8s.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale))).To(Succeed())
	g.Expect(called.all()).To(ConsistOf("scale UPDATE scale Scale", "any UPDATE scale Scale"))
	called.reset()

	awaitCached(ctx, g, obj)
	// The patch removes the label. The API server calls because of the old object, but no handler matches the new
	// object.
	g.Expect(k8s.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":null}}`)))).To(Succeed())
	g.Expect(called.all()).To(ConsistOf("plain UPDATE  Widget", "any UPDATE  Widget", "unlabelled UPDATE  Widget", "mutated UPDATE  Widget"))
	called.reset()

	awaitCached(ctx, g, obj)
	c, w := clientWithWarnings(t)
	g.Expect(c.Delete(ctx, obj)).To(Succeed(), "want success, because changes of a deleted object are discarded")
	g.Expect(called.all()).To(ConsistOf("plain DELETE  Widget", "any DELETE  Widget", "unlabelled DELETE  Widget", "gone DELETE  Widget"))
	g.Expect(w.all()).To(ConsistOf(ContainSubstring("the object is being deleted")))
}

// awaitCached waits until the API server's cache contains the stored version of the object. The API server first changes
// its cached object and calls the webhooks for it. If the cache is outdated, it calls them again for the stored object.
func awaitCached(ctx context.Context, g Gomega, obj client.Object) {
	stored := loose()
	g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(obj), stored)).To(Succeed())
	cached := loose()
	g.Eventually(func() (string, error) {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
		return cached.GetResourceVersion(), err
	}).Should(Equal(stored.GetResourceVersion()))
}

// A patch that makes the object too large fails only its own request.
func TestServer_HugePatch(t *testing.T) {
	needServer(t)
	g, ctx, called := NewWithT(t), t.Context(), &recorder{}
	op := start(t, operatorConfig{hooks: []webhooks.Hook{
		webhooks.Mutating(&v1.Widget{}, "grow", func(_ context.Context, req *widgetRequest) error {
			called.add(req.Object.Name)
			if req.Object.Name == "huge" {
				req.Object.Spec.Tags = slices.Repeat([]string{strings.Repeat("x", 1000)}, 4000) // 4 MB
			}
			return nil
		}, maxTimeout),
	}})
	awaitHandlers(t, op, called)
	for range 3 {
		// On a busy machine, sending the object can time out, so the test retries it.
		g.Eventually(func() error { return k8s.Create(ctx, widget(op.ns, "huge", 1)) }).
			Should(MatchError(Or(ContainSubstring("too large"), ContainSubstring("larger than max"))), "want an error about the size")
	}
	g.Expect(k8s.Create(ctx, widget(op.ns, "a", 1))).To(Succeed())
	g.Expect(called.all()).To(ContainElements("huge", "huge", "huge", "a"))
}

// If a handler denies CONNECT, which kubectl exec sends, the API server does not open the connection.
func TestServer_DeniesConnect(t *testing.T) {
	needServer(t)
	g, ctx := NewWithT(t), t.Context()
	pods := &unstructured.Unstructured{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	op := start(t, operatorConfig{hooks: []webhooks.Hook{
		webhooks.Validating(pods, "no-exec", func(_ context.Context, req *looseRequest) error {
			command, _, _ := unstructured.NestedStringSlice(req.Object.Object, "command")
			return webhooks.Deny(0, "", "running "+command[0]+" in "+req.Review.Name+" is forbidden")
		}, webhooks.Subresource("exec"), webhooks.Operations(admissionregistrationv1.Connect)),
	}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: op.ns, Name: "pod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}, AutomountServiceAccountToken: new(false)},
	}
	g.Expect(k8s.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: op.ns, Name: "default"}})).To(Succeed())
	g.Expect(k8s.Create(ctx, pod)).To(Succeed())
	clientset, err := kubernetes.NewForConfig(cp.Config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() error {
		return clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(op.ns).Name("pod").SubResource("exec").
			Param("command", "rm").Param("stdout", "true").Do(ctx).Error()
	}).Should(And(Satisfy(apierrors.IsForbidden), MatchError(ContainSubstring("running rm in pod is forbidden"))))
}
