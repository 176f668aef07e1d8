package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// fleetSize returns the number of objects of these specs. The environment variable ROLLOUT_OBJECTS sets it.
func fleetSize() int {
	if n, err := strconv.Atoi(os.Getenv("ROLLOUT_OBJECTS")); err == nil {
		return n
	}
	return 100
}

// createAll creates objects in parallel.
func createAll(ctx context.Context, n int, newObject func(i int) client.Object) {
	GinkgoHelper()
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 20, n, func(i int) { errs[i] = k8s.Create(ctx, newObject(i)) })
	Expect(errors.Join(errs...)).To(Succeed())
}

func rolloutState(ctx context.Context, ns, kind string) func() (rollout.State, error) {
	return func() (rollout.State, error) {
		states, err := rollout.Load(ctx, k8s, client.ObjectKey{Namespace: ns, Name: rollout.DefaultName})
		return states[kind], err
	}
}

// handledObjects returns a function that counts the objects with an annotation of the operator.
func handledObjects(ctx context.Context, gvk schema.GroupVersionKind, ns, annotation string) func() (int, error) {
	return func() (handled int, err error) {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err = k8s.List(ctx, all, client.InNamespace(ns))
		for _, one := range all.Items {
			if one.Annotations["kopf.zalando.org/"+annotation] != "" {
				handled++
			}
		}
		return handled, err
	}
}

var _ = Describe("Rollouts", func() {
	type W = *v1.Widget
	type U = *unstructured.Unstructured

	// A third of the canaries fails. The rollout halts within them, also after a restart, and goes on when someone resumes it.
	It("of a revision halt when canaries fail, until they are resumed", func(ctx context.Context) {
		ns, n := newNamespace(ctx), fleetSize()
		var mu sync.Mutex
		broken, begun := true, map[string]bool{}
		apply := func(_ context.Context, req *kopf.Request[W]) error {
			if req.Reason != kopf.ReasonRevision {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			begun[req.Object.Name] = true
			if broken && len(begun)%3 == 0 {
				return kopf.Permanent(errors.New("invalid"))
			}
			return nil
		}
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(begun) }
		first := start(ns, options(kopf.For(&v1.Widget{}).OnCreateOrUpdate("apply", apply)))
		createAll(ctx, n, func(i int) client.Object { return widget(ns, fmt.Sprintf("w%05d", i)) })
		Eventually(handledObjects(ctx, widgetGVK, ns, "last-handled-configuration")).WithTimeout(10 * minute).Should(Equal(n))
		first.stop()

		version2 := options(kopf.For(&v1.Widget{}).OnCreateOrUpdate("apply", apply, kopf.Revision(1)),
			kopf.WithRollout(rollout.Options{Canaries: 0.1, MaxParallel: 3, HaltAt: 0.2, Namespace: ns}))
		second := start(ns, version2)
		Eventually(rolloutState(ctx, ns, "widgets."+v1.GroupVersion.Group)).WithTimeout(5 * minute).Should(HaveField("Halted", HaveField("By", "rollout")))
		Consistently(count).Should(BeNumerically("<=", n/10))
		stopped := count()
		second.stop()
		third := start(ns, version2)
		Consistently(count).WithTimeout(2 * time.Second).Should(Equal(stopped))
		mu.Lock()
		broken = false
		mu.Unlock()
		Expect(rollout.Resume(ctx, k8s, client.ObjectKey{Namespace: ns, Name: rollout.DefaultName}, "widgets."+v1.GroupVersion.Group)).To(Succeed())
		Eventually(count).WithTimeout(10 * minute).Should(Equal(n))
		Eventually(rolloutState(ctx, ns, "widgets."+v1.GroupVersion.Group)).Should(And(HaveField("Halted", BeNil()), HaveField("Progress", HaveKeyWithValue("", And(
			HaveField("Total", n), HaveField("Done", n), HaveField("Waiting", 0),
		)))))
		third.stop()
	}, SpecTimeout(30*minute))

	// A default is added to a CRD. The objects are handled in portions, but a user's edit of a label doesn't wait.
	It("hold updates that a change of the schema has caused", func(ctx context.Context) {
		ns, n := newNamespace(ctx), fleetSize()
		gvk := v1.GroupVersion.WithKind("Vase")
		kind := "vases." + gvk.Group
		_, err := envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd(gvk, true, true)}})
		Expect(err).NotTo(HaveOccurred())
		var mu sync.Mutex
		updated, let := map[string]string{}, make(chan struct{})
		count := func() int { mu.Lock(); defer mu.Unlock(); return len(updated) }
		update := func(ctx context.Context, req *kopf.Request[U]) error {
			mu.Lock()
			updated[req.Object.GetName()] = req.Diff.String()
			mu.Unlock()
			if req.Object.GetLabels()["edited"] == "" {
				awaitClosed(ctx, let)
			}
			return nil
		}
		resumed := map[string]bool{}
		resume := func(_ context.Context, req *kopf.Request[U]) error {
			mu.Lock()
			defer mu.Unlock()
			resumed[req.Object.GetName()] = true
			return nil
		}
		version := options(kopf.For(kopf.Unstructured(gvk)).OnCreate("create", ok[U](&calls{}, "create")).OnResume("resume", resume).OnUpdate("update", update),
			kopf.WithRollout(rollout.Options{Canaries: 0.1, MaxParallel: 5, Namespace: ns}))
		one := start(ns, version)
		createAll(ctx, n, func(i int) client.Object { return untyped(gvk, ns, fmt.Sprintf("v%05d", i)) })
		Eventually(handledObjects(ctx, gvk, ns, "revision")).WithTimeout(10 * minute).Should(Equal(n))

		changed := crd(gvk, true, true)
		changed.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["glaze"] = apiextensionsv1.JSONSchemaProps{
			Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"blue"`)},
		}
		_, err = envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{changed}})
		Expect(err).NotTo(HaveOccurred())
		// The API server applies the default to all objects that it returns from now on. Informers notice it when their watches end.
		one.stop()
		one = start(ns, version)
		Eventually(count).WithTimeout(2 * minute).Should(Equal(5))
		Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(resumed) }).WithTimeout(10 * minute).Should(Equal(n)) // resume handlers do not wait
		Consistently(count).Should(Equal(5))
		Eventually(rolloutState(ctx, ns, kind)).WithTimeout(minute).Should(HaveField("Progress", HaveKeyWithValue("", And(
			HaveField("Total", n), HaveField("Waiting", n-5), HaveField("Running", 5),
		))))
		edited := untyped(gvk, ns, "")
		for i := range n {
			name := fmt.Sprintf("v%05d", i)
			mu.Lock()
			_, isUpdated := updated[name]
			mu.Unlock()
			if !isUpdated {
				edited.SetName(name)
				break
			}
		}
		edit(ctx, edited, func(obj U) { obj.SetLabels(map[string]string{"edited": "yes"}) })
		Eventually(count).Should(Equal(6))
		mu.Lock()
		Expect(updated).To(HaveKeyWithValue(edited.GetName(), And(ContainSubstring("labels"), ContainSubstring("glaze"))))
		mu.Unlock()
		close(let)
		Eventually(count).WithTimeout(10 * minute).Should(Equal(n))
		one.stop()
	}, SpecTimeout(30*minute))
})
