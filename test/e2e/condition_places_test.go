package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// lines returns the lineAdapter for a widget.
func lines(obj client.Object) (conditions.Fields, error) {
	w, ok := obj.(*v1.Widget)
	if !ok {
		return nil, fmt.Errorf("%T is not a widget", obj)
	}
	return lineAdapter{w}, nil
}

// A lineAdapter stores each condition as a line in status.log, for example "Ready True Because 1700000000".
type lineAdapter struct{ *v1.Widget }

func (l lineAdapter) all() map[string]metav1.Condition {
	out := map[string]metav1.Condition{}
	for _, line := range l.Status.Log {
		var c metav1.Condition
		var at int64
		if _, err := fmt.Sscanf(line, "%s %s %s %d", &c.Type, &c.Status, &c.Reason, &at); err == nil {
			c.LastTransitionTime = metav1.Unix(at, 0)
			out[c.Type] = c
		}
	}
	return out
}

func (l lineAdapter) List() (list []metav1.Condition) {
	all := l.all()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		list = append(list, all[kind])
	}
	return list
}

func (l lineAdapter) store(all map[string]metav1.Condition) {
	l.Status.Log = nil
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		c := all[kind]
		l.Status.Log = append(l.Status.Log, fmt.Sprintf("%s %s %s %d", c.Type, c.Status, c.Reason, c.LastTransitionTime.Unix()))
	}
}

func (l lineAdapter) Put(c metav1.Condition) {
	all := l.all()
	all[c.Type] = c
	l.store(all)
}

func (l lineAdapter) Remove(kind string) {
	all := l.all()
	delete(all, kind)
	l.store(all)
}

// statusAndReason returns the status and the reason of a condition of an object.
func statusAndReason(ctx context.Context, obj client.Object, kind string, places ...conditions.Option) func() (string, error) {
	return func() (string, error) {
		now := obj.DeepCopyObject().(client.Object)
		if err := k8s.Get(ctx, keyOf(obj), now); err != nil {
			return "", err
		}
		set, err := conditions.For(now, places...)
		if err != nil {
			return "", err
		}
		c, _ := set.Get(kind)
		return string(c.Status) + " " + c.Reason, nil
	}
}

var _ = Describe("Conditions in another place (WithConditionsIn)", func() {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse

	// expectConditions runs an operator with the resource, and checks all features of conditions.
	expectConditions := func(ctx context.Context, seen *calls, obj client.Object, resource kopf.Option, places ...conditions.Option) {
		GinkgoHelper()
		create(ctx, obj)
		r := start(obj.GetNamespace(), options(resource))
		condition := func(kind string) func() (string, error) { return statusAndReason(ctx, obj, kind, places...) }
		Eventually(condition("Made")).Should(Equal("False Retrying"))
		Expect(condition("Synced")()).To(Equal("Unknown NotReported"))
		Eventually(condition("Made")).Should(Equal("True Succeeded"))
		Expect(condition("Ready")()).To(HavePrefix("Unknown "))
		Eventually(seen.all).Should(ContainElement("filtered"), "Made is True")
		// Another controller also stores conditions in this field.
		Eventually(func() error {
			now := obj.DeepCopyObject().(client.Object)
			if err := k8s.Get(ctx, keyOf(obj), now); err != nil {
				return err
			}
			return conditions.Write(ctx, k8s, now, func(s *conditions.Set) {
				s.True("Synced", "Theirs", "")
				s.False("Foreign", "Theirs", "")
			}, places...)
		}).Should(Succeed())
		Eventually(seen.all).Should(ContainElement("Synced True"), "Synced has changed")
		Eventually(func() error {
			now := obj.DeepCopyObject().(client.Object)
			if err := k8s.Get(ctx, keyOf(obj), now); err != nil {
				return err
			}
			now.SetLabels(map[string]string{"edited": "yes"})
			return k8s.Update(ctx, now)
		}).Should(Succeed())
		Eventually(condition("Ready")).Should(HavePrefix("True "))
		Expect(condition("Foreign")()).To(Equal("False Theirs"))
		Expect(seen.count("Synced True")).To(Equal(1))
		Expect(seen.all()).NotTo(ContainElement(ContainSubstring("updated by")), "a change of a condition must not be an update")
		Expect(r.log.errors()).To(BeEmpty())
	}

	It("on another path are declared, reported, summarized, filtered and passed to handlers", func(ctx context.Context) {
		type U = *unstructured.Unstructured
		seen, at := &calls{}, conditions.At("status.health.checks")
		expectConditions(ctx, seen, untyped(widgetGVK, newNamespace(ctx), "a"),
			kopf.For(kopf.Unstructured(widgetGVK), kopf.WithConditionsIn(at), kopf.WithConditions("Ready", "Synced", "Made")).
				OnCreate("make", failsUntil[U](seen, "make", 2, notYet()), kopf.ReportCondition("Made")).
				OnReconcile("filtered", noted[U](seen, "filtered"), kopf.WhenCondition("Made", yes)).
				OnReconcile("never", noted[U](seen, "updated by mistake"), kopf.WhenCondition("Made", no), kopf.WhenCondition("Synced", yes)).
				OnUpdate("updated", updated[U](seen)).
				OnCondition("record", "Synced", transition[U](seen)), at)
	}, SpecTimeout(minute))

	It("of another shape are supported by an adapter", func(ctx context.Context) {
		type W = *v1.Widget
		seen, using := &calls{}, conditions.Using(lines)
		expectConditions(ctx, seen, widget(newNamespace(ctx), "a"),
			kopf.For(&v1.Widget{}, kopf.WithConditionsIn(using), kopf.WithConditions("Ready", "Synced", "Made")).
				OnCreate("make", failsUntil[W](seen, "make", 2, notYet()), kopf.ReportCondition("Made")).
				OnReconcile("filtered", noted[W](seen, "filtered"), kopf.WhenCondition("Made", yes)).
				OnReconcile("never", noted[W](seen, "updated by mistake"), kopf.WhenCondition("Made", no), kopf.WhenCondition("Synced", yes)).
				OnUpdate("updated", updated[W](seen)).
				OnCondition("record", "Synced", transition[W](seen)), using)
	}, SpecTimeout(minute))

	It("outside of the status are not written again without a change", func(ctx context.Context) {
		type U = *unstructured.Unstructured
		ns, wire, seen, at := newNamespace(ctx), &writeRecorder{}, &calls{}, conditions.At("spec.checks")
		a := untyped(widgetGVK, ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK), kopf.WithConditionsIn(at), kopf.WithConditions("Ready", "Synced", "Made")).
			OnCreate("make", ok[U](seen, "make"), kopf.ReportCondition("Made")).
			OnReconcile("sync", ok[U](seen, "sync"), kopf.ReportCondition("Synced"))), wire.setup())
		Eventually(statusAndReason(ctx, a, "Ready", at)).Should(HavePrefix("True "))
		handled(ctx, a)
		Consistently(func() int { return len(wire.all()) }, 2*time.Second).Should(BeNumerically("<", 10), "%v", wire.all())
	}, SpecTimeout(minute))

	It("are set by handlers, also before the handlers return", func(ctx context.Context) {
		type U = *unstructured.Unstructured
		at := conditions.At("status.health.checks")
		a, let := untyped(widgetGVK, newNamespace(ctx), "a"), make(chan struct{})
		create(ctx, a)
		r := start(a.GetNamespace(), options(kopf.For(kopf.Unstructured(widgetGVK), kopf.WithConditionsIn(at)).
			OnCreate("works", func(ctx context.Context, req *kopf.Request[U]) error {
				req.Conditions().False("Done", "Begun", "")
				if err := req.Flush(ctx); err != nil {
					return err
				}
				<-let
				return conditions.Error{Type: "Done", Status: yes, Reason: "Partial", Err: kopf.Permanent(errors.New("failed"))}
			})))
		Eventually(statusAndReason(ctx, a, "Done", at)).Should(Equal("False Begun"))
		close(let)
		Eventually(statusAndReason(ctx, a, "Done", at)).Should(Equal("True Partial"))
		Expect(r.log.find("cannot have conditions")).To(BeEmpty())
	}, SpecTimeout(minute))
})

// noted returns a handler that records a note.
func noted[T client.Object](seen *calls, note string) kopf.Handler[T] {
	return func(context.Context, *kopf.Request[T]) error {
		seen.notef("%s", note)
		return nil
	}
}

// updated returns a handler that records updates of anything except labels.
func updated[T client.Object](seen *calls) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		if req.Diff.Reduce("metadata", "labels").Empty() {
			seen.notef("updated by %v", req.Diff)
		}
		return nil
	}
}

// transition returns a handler that records the values of a condition.
func transition[T client.Object](seen *calls) kopf.Handler[T] {
	return func(_ context.Context, req *kopf.Request[T]) error {
		_, now := req.Field()
		seen.notef("Synced %v", now)
		return nil
	}
}

func notYet() error { return kopf.Temporary(errors.New("not yet"), 500*time.Millisecond) }
