package kopftest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// retrying returns handlers that fail in the first attempts.
func retrying(times int) *kopf.Resource[*corev1.ConfigMap] {
	return kopf.For(&corev1.ConfigMap{}).
		OnCreate("repeated", func(_ context.Context, req *cmRequest) error {
			if req.Attempt.Number < times {
				return kopf.Temporary(errors.New("not yet"), time.Hour)
			}
			req.Sub("sub", func(context.Context, *cmRequest) error { return nil })
			return nil
		}).
		OnDelete("drop", func(context.Context, *cmRequest) error { return nil })
}

func TestMatchers_OverObjectLifetime(t *testing.T) {
	for name, options := range map[string][]kopf.Option{
		"default":     nil,
		"annotations": {kopf.WithProgress(progress.Annotations(""))},
		"a prefix":    {kopf.WithProgress(progress.Annotations("state.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("state.example.com"))},
		"a long prefix": {
			kopf.WithProgress(progress.Annotations("state.of.an.operator.with.a.long.name.example.com")),
			kopf.WithBaseline(progress.AnnotationBaseline("state.of.an.operator.with.a.long.name.example.com")),
		},
		"two prefixes": {
			kopf.WithProgress(progress.Multi(progress.AnnotationsV2("state.example.com"), progress.Smart())),
			kopf.WithBaseline(progress.MultiBaseline(progress.AnnotationBaselineV2("base.example.com"), progress.AnnotationBaseline(""))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				withOptions := func(resource kopf.Option) []kopf.Option { return append([]kopf.Option{resource}, options...) }
				cluster := kopftest.Memory(t)
				obj := configMap(map[string]string{"color": "red"})
				cluster.Create(t, obj)
				g.Expect(obj).NotTo(Or(kopftest.HaveHandled(), kopftest.HaveFinalizer(), kopftest.HaveInProgress()))

				operator := cluster.Run(t, withOptions(retrying(2))...)
				g.Eventually(kopftest.Object(t, cluster, obj)).Should(And(
					kopftest.HaveInProgress("repeated"), kopftest.HaveInProgress(), kopftest.HaveFinalizer(), Not(kopftest.HaveHandled())))
				operator.RunUntilQuiet(t)
				cluster.Get(t, obj)
				g.Expect(obj).To(And(kopftest.HaveHandled(), kopftest.HaveFinalizer(kopf.DefaultFinalizer), Not(kopftest.HaveInProgress())))
				g.Expect(operator.Handlers(obj)).To(Equal([]string{"repeated", "repeated", "repeated", "repeated/sub"}))
				g.Expect(operator.Handlers(configMap(nil))).To(Equal(operator.Handlers(obj)), "want the same handlers by the name")

				operator.Stop(t)
				kopftest.Edit(t, cluster, obj, func(obj *corev1.ConfigMap) { obj.Data["color"] = "blue" })
				g.Expect(obj).NotTo(kopftest.HaveHandled(), "the object was edited after the last cycle")
				operator = cluster.Run(t, withOptions(retrying(2))...)
				operator.RunUntilQuiet(t)
				cluster.Get(t, obj)
				g.Expect(obj).To(kopftest.HaveHandled())
				cluster.Delete(t, obj)
				operator.RunUntilQuiet(t)
				g.Expect(client.IgnoreNotFound(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))).To(Succeed())
				g.Expect(operator.Handlers(obj)).To(Equal([]string{"drop"}))
			})
		})
	}
}

func TestMatchers_FailureMessages(t *testing.T) {
	g := NewWithT(t)
	obj := configMap(nil)
	for want, matcher := range map[string]interface {
		Match(any) (bool, error)
		FailureMessage(any) string
	}{
		"no last-handled configuration": kopftest.HaveHandled(),
		"no handler is in progress":     kopftest.HaveInProgress(),
		"in progress are []":            kopftest.HaveInProgress("a"),
		"its finalizers are []":         kopftest.HaveFinalizer("example.com/mine"),
	} {
		ok, err := matcher.Match(obj)
		g.Expect(ok).To(BeFalse())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(matcher.FailureMessage(obj)).To(And(ContainSubstring(want), ContainSubstring("default/orders")))
		_, err = matcher.Match("text")
		g.Expect(err).To(MatchError(ContainSubstring("expected a client.Object")), "want an error for a value that is not an object")
	}
}

// Each operator that has handled an object stores its own last-handled configuration. All must have handled the current state.
func TestHaveHandled_TwoOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		cluster := kopftest.Memory(t)
		obj := configMap(map[string]string{"color": "red"})
		cluster.Create(t, obj)
		with := func(prefix string) *kopftest.Operator {
			return cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("create", nothing).OnUpdate("update", nothing),
				kopf.WithProgress(progress.Annotations(prefix)), kopf.WithBaseline(progress.AnnotationBaseline(prefix)), kopf.WithFinalizer(prefix+"/f"))
		}
		one, two := with("one.example.com"), with("two.example.com")
		one.RunUntilQuiet(t)
		two.RunUntilQuiet(t)
		one.Stop(t)
		cluster.Get(t, obj)
		g.Expect(obj).To(kopftest.HaveHandled())
		kopftest.Edit(t, cluster, obj, func(obj *corev1.ConfigMap) { obj.Data["color"] = "blue" })
		two.RunUntilQuiet(t)
		cluster.Get(t, obj)
		matcher := kopftest.HaveHandled()
		g.Expect(obj).NotTo(matcher)
		g.Expect(matcher.FailureMessage(obj)).To(ContainSubstring("it has changed since it was handled (one.example.com)"))
	})
}

// HaveHandled does not confuse a field named started with a record.
func TestHaveHandled_FieldNamedStarted(t *testing.T) {
	g := NewWithT(t)
	obj := configMap(map[string]string{"started": "yes"})
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{obj}}, kopf.For(&corev1.ConfigMap{}).OnCreate("create", nothing))
	g.Expect(report.Get(t, obj)).To(BeTrue())
	g.Expect(obj).To(kopftest.HaveHandled())
	obj.Finalizers = []string{"example.com/one"}
	g.Expect(obj).NotTo(kopftest.HaveFinalizer("example.com/one", "example.com/other"))
}

// HaveHandled considers a status field only if it has a handler.
func TestHaveHandled_StatusFields(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{Status: corev1.PodStatus{Message: "here", NominatedNodeName: "one"}}
	pod.Namespace, pod.Name = "default", "orders"
	noting := func(context.Context, *kopf.Request[*corev1.Pod]) error { return nil }
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{pod}}, kopf.For(&corev1.Pod{}).OnField("note", "status.message", noting))
	g.Expect(report.Handlers()).To(Equal([]string{"note/status.message"}))
	g.Expect(report.Get(t, pod)).To(BeTrue())
	g.Expect(pod).To(kopftest.HaveHandled())
	pod.Status.NominatedNodeName = "two"
	g.Expect(pod).To(kopftest.HaveHandled(), "the status field has no handler")
	pod.Status.Message = "there"
	g.Expect(pod).NotTo(kopftest.HaveHandled())
}

// For handlers with fields or long ids, the names of the annotations differ from the ids.
func TestHaveInProgress_HandlerIDs(t *testing.T) {
	long := "a-handler-with-an-id-that-is-longer-than-the-name-of-an-annotation-may-be"
	fails := func(context.Context, *cmRequest) error { return kopf.Temporary(errors.New("not yet"), time.Hour) }
	report := kopftest.Cycle(t, kopftest.Given{Objects: []client.Object{configMap(map[string]string{"color": "red"})}},
		kopf.For(&corev1.ConfigMap{}).OnField("paint", "data.color", fails).OnCreate(long, fails))
	obj := configMap(nil)
	g := NewWithT(t)
	g.Expect(report.Get(t, obj)).To(BeTrue())
	g.Expect(obj).To(kopftest.HaveInProgress("paint/data.color", long))
	g.Expect(obj).NotTo(kopftest.HaveInProgress("paint/data.color"))
}
