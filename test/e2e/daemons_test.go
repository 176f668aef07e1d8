package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// recordingDaemon returns a daemon that runs until it is cancelled. It records its start and the reason for its end.
func stays[T client.Object](c *calls, id string) kopf.Handler[T] {
	return func(ctx context.Context, req *kopf.Request[T]) error {
		c.notef("%s begins for %s", id, req.Object.GetName())
		<-ctx.Done()
		c.notef("%s ends for %s: %v", id, req.Object.GetName(), context.Cause(ctx))
		return nil
	}
}

var _ = Describe("Daemons", func() {
	type W = *v1.Widget

	It("run for each object until it is deleted, and the deletion waits until they end (DAE-01, DAE-02, DAE-05, DAE-08, FIN-02, B-42)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a, b := widget(ns, "a"), widget(ns, "b")
		create(ctx, a)
		leave := make(chan struct{})
		releaseDaemon := sync.OnceFunc(func() { close(leave) })
		DeferCleanup(releaseDaemon)
		var running sync.Map // contexts of the daemons
		start(ns, options(kopf.For(&v1.Widget{}).
			Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				running.Store(req.Object.Name, ctx)
				seen.notef("begins for %s: %s", req.Object.Name, req.Reason)
				<-ctx.Done()
				seen.notef("%s is cancelled: %v", req.Object.Name, context.Cause(ctx))
				<-leave
				seen.notef("ends for %s", req.Object.Name)
				return nil
			}).
			OnDelete("bye", func(_ context.Context, req *kopf.Request[W]) error {
				daemon, _ := running.Load(req.Object.Name)
				seen.notef("bye: %v", context.Cause(daemon.(context.Context)))
				return nil
			})))
		create(ctx, b)
		Eventually(seen.all).Should(ConsistOf("begins for a: daemon", "begins for b: daemon"))
		Expect(fresh(ctx, a)()).To(HaveField("ObjectMeta.Finalizers", ConsistOf(kopf.DefaultFinalizer)))
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		remove(ctx, a)
		Eventually(seen.all).Should(HaveLen(4))
		Expect(seen.all()[2:]).To(ConsistOf("a is cancelled: "+daemons.ErrDeleted.Error(), "bye: "+daemons.ErrDeleted.Error()), "the daemon must be cancelled before delete handlers are called")
		Consistently(gone(ctx, a)).Should(BeFalse(), "the finalizer must remain while the daemon runs")
		Expect(seen.all()).To(HaveLen(4), "no handler may be called again while the daemon runs")
		releaseDaemon()
		Eventually(gone(ctx, a)).Should(BeTrue())
		Expect(seen.all()[4:]).To(Equal([]string{"ends for a"}))
	}, SpecTimeout(minute))

	It("start before the handlers of their object (PIPE-08, DAE-08)", func(ctx context.Context) {
		ns, began := newNamespace(ctx), make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("waits", func(ctx context.Context, _ *kopf.Request[W]) error {
				select {
				case <-began:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}).
			Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[W]) error {
				close(began)
				<-ctx.Done()
				return nil
			})))
		handled(ctx, a)
	}, SpecTimeout(minute))

	It("need no other handlers; the engine writes only the finalizer to the object", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, stays[W](seen, "watch"))))
		Eventually(seen.all).Should(HaveLen(1))
		now, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Annotations).To(BeEmpty())
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue())
		Expect(seen.all()[1:]).To(Equal([]string{"watch ends for a: " + daemons.ErrDeleted.Error()}))
	}, SpecTimeout(minute))

	It("end when the object no longer passes their filters, and start when it passes them again (DAE-04, DAE-15, FIN-04, FLT-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, stays[W](seen, "watch"), kopf.Label("on"))))
		Consistently(seen.all).Should(BeEmpty())
		for range 3 {
			edit(ctx, a, func(w W) { w.Labels = map[string]string{"on": ""} })
			Eventually(seen.all).Should(HaveLen(1))
			edit(ctx, a, func(w W) { w.Labels = nil })
			Eventually(seen.all).Should(Equal([]string{"watch begins for a", "watch ends for a: " + daemons.ErrFilteredOut.Error()}))
			Eventually(fresh(ctx, a)).Should(HaveField("ObjectMeta.Finalizers", BeEmpty()))
			seen.clear()
		}
	}, SpecTimeout(minute))

	It("start again after the previous run has ended, if the object passes the filters again while the daemon stops (DAE-09, SE-12, B-40)", func(ctx context.Context) {
		ns, seen, leave := newNamespace(ctx), &calls{}, make(chan struct{})
		a := widget(ns, "a")
		a.Labels = map[string]string{"on": ""}
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[W]) error {
			seen.notef("begins")
			<-ctx.Done()
			seen.notef("cancelled")
			<-leave
			return nil
		}, kopf.Label("on"))))
		Eventually(seen.all).Should(Equal([]string{"begins"}))
		edit(ctx, a, func(w W) { w.Labels = nil })
		Eventually(seen.all).Should(Equal([]string{"begins", "cancelled"}))
		Consistently(fresh(ctx, a)).Should(HaveField("ObjectMeta.Finalizers", ConsistOf(kopf.DefaultFinalizer)), "the finalizer must remain while the daemon runs")
		edit(ctx, a, func(w W) { w.Labels = map[string]string{"on": ""} })
		Consistently(seen.all).Should(HaveLen(2), "the daemon must not start before its previous run has ended")
		close(leave)
		Eventually(seen.all).Should(Equal([]string{"begins", "cancelled", "begins"}))
	}, SpecTimeout(minute))

	It("are not started again after they have returned, and then do not block the deletion (DAE-03, DAE-14, FIN-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).Daemon("once", daemons.Daemon{}, ok[W](seen, "once"))))
		Eventually(seen.all).Should(HaveLen(1))
		Eventually(fresh(ctx, a)).Should(HaveField("ObjectMeta.Finalizers", BeEmpty()), "the engine must remove the finalizer")
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		Consistently(seen.all).Should(HaveLen(1))
		r.stop()
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("once", daemons.Daemon{}, ok[W](seen, "once"))))
		Eventually(seen.all).Should(HaveLen(2), "a new process must start the daemon again")
	}, SpecTimeout(minute))

	It("are retried according to their policy, and receive the attempt number (DAE-11, DAE-12, DAE-16)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		create(ctx, widget(ns, "a"))
		start(ns, options(kopf.For(&v1.Widget{}).
			Daemon("tries", daemons.Daemon{}, failsUntil[W](seen, "tries", 2, errors.New("not yet")), kopf.Backoff(0)).
			Daemon("gives-up", daemons.Daemon{}, fails[W](seen, "gives-up", kopf.Temporary(errors.New("not yet"), 0)), kopf.Retries(2))))
		Eventually(seen.all).Should(ConsistOf("tries:daemon#0", "tries:daemon#1", "tries:daemon#2", "gives-up:daemon#0", "gives-up:daemon#1"))
		Consistently(seen.all).Should(HaveLen(5))
	}, SpecTimeout(minute))

	It("that do not stop are logged, and after their timeout they are abandoned and no longer block the deletion (DAE-23, FIN-08, B-42)", func(ctx context.Context) {
		ns, seen, leave := newNamespace(ctx), &calls{}, make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).Daemon("deaf", daemons.Daemon{CancellationBackoff: new(10 * time.Millisecond), CancellationTimeout: new(200 * time.Millisecond)}, func(context.Context, *kopf.Request[W]) error {
			seen.notef("begins")
			<-leave
			seen.notef("ends")
			return nil
		})))
		Eventually(seen.all).Should(HaveLen(1))
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue())
		Expect(r.log.find(`"state"="abandoned"`)).NotTo(BeEmpty())
		Expect(seen.all()).To(Equal([]string{"begins"}))
		close(leave)
		Eventually(seen.all).Should(HaveLen(2))
	}, SpecTimeout(minute))

	It("read the current object while they run, without a request (KW-05)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
			last := 0
			for ctx.Err() == nil {
				if latest := req.Latest(); latest.Spec.Size != last {
					last = latest.Spec.Size
					seen.notef("%d", last)
				}
				if !wait(ctx, 5*time.Millisecond) {
					break
				}
			}
			return nil
		})))
		for size := 2; size < 5; size++ {
			Eventually(seen.all).Should(HaveLen(size - 1))
			edit(ctx, a, func(w W) { w.Spec.Size = size })
		}
		Eventually(seen.all).Should(Equal([]string{"1", "2", "3", "4"}))
	}, SpecTimeout(minute))

	It("have their changes and results written when they return, even if they fail (DAE-13, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := untyped(widgetGVK, ns, "a")
		create(ctx, a)
		type U = *unstructured.Unstructured
		start(ns, options(kopf.For(kopf.Unstructured(widgetGVK)).
			OnUpdate("update", ok[U](seen, "update")).
			OnCreate("create", ok[U](seen, "create")).
			Daemon("writes", daemons.Daemon{}, func(_ context.Context, req *kopf.Request[U]) error {
				seen.notef("writes#%d", req.Attempt.Number)
				Expect(unstructured.SetNestedField(req.Object.Object, fmt.Sprint("attempt ", req.Attempt.Number), "status", "phase")).To(Succeed())
				Expect(unstructured.SetNestedField(req.Object.Object, int64(10+req.Attempt.Number), "spec", "size")).To(Succeed())
				req.SetResult(map[string]any{"done": true})
				if req.Attempt.Number < 2 {
					return kopf.Temporary(errors.New("not yet"), 0)
				}
				return nil
			})))
		Eventually(valueAt(ctx, a, "status")).Should(Equal(map[string]any{"phase": "attempt 2", "writes": map[string]any{"done": true}}))
		handled(ctx, a)
		Eventually(valueAt(ctx, a, "spec", "size")).Should(BeEquivalentTo(12), "the spec must be written after the status")
		Consistently(func() int { return seen.count("update:update") }).Should(BeZero(), "changes by the daemon must not be updates")
		edit(ctx, a, func(u U) { Expect(unstructured.SetNestedField(u.Object, "green", "spec", "color")).To(Succeed()) })
		Eventually(func() int { return seen.count("update:update") }).Should(Equal(1), "changes by other clients must be updates")
	}, SpecTimeout(minute))

	It("stop with the operator, and their changes are written (DAE-41, DAE-44, RUN-22)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(
			kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[W]) error {
				seen.notef("begins")
				<-ctx.Done()
				seen.notef("%v", context.Cause(ctx))
				req.Object.Status.Phase = "stopped"
				return nil
			}),
			kopf.OnCleanup("cleanup", func(context.Context) error { seen.notef("cleanup"); return nil })))
		Eventually(seen.all).Should(HaveLen(1))
		r.stop()
		Expect(seen.all()).To(Equal([]string{"begins", daemons.ErrShutdown.Error(), "cleanup"}))
		now, err := fresh(ctx, a)()
		Expect(err).NotTo(HaveOccurred())
		Expect(now.Status.Phase).To(Equal("stopped"))
		Expect(controllerutil.ContainsFinalizer(now, kopf.DefaultFinalizer)).To(BeTrue(), "the finalizer must remain for the next process")
	}, SpecTimeout(minute))

	It("start after their initial delay, which may depend on the object (DAE-10)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).
			Daemon("at-once", daemons.Daemon{}, ok[W](seen, "at-once"), kopf.InitialDelayFunc(func(obj client.Object) time.Duration {
				return -time.Duration(obj.(W).Spec.Size)
			})).
			Daemon("never", daemons.Daemon{}, ok[W](seen, "never"), kopf.InitialDelay(time.Hour)).
			Daemon("broken", daemons.Daemon{}, ok[W](seen, "broken"), kopf.InitialDelayFunc(func(client.Object) time.Duration { panic("oops") }))))
		Eventually(seen.all).Should(Equal([]string{"at-once:daemon"}))
		Consistently(seen.all).Should(HaveLen(1))
		Expect(r.log.find("InitialDelayFunc panicked: oops")).NotTo(BeEmpty())
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue(), "daemons that have not started must not block the deletion")
	}, SpecTimeout(minute))

	It("are cancelled immediately by a deletion, even if all workers are busy (SE-53, DAE-08)", func(ctx context.Context) {
		ns, seen, leave := newNamespace(ctx), &calls{}, make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			Daemon("watch", daemons.Daemon{}, stays[W](seen, "watch")).
			OnUpdate("hangs", func(context.Context, *kopf.Request[W]) error {
				seen.notef("hangs")
				<-leave
				return nil
			})))
		handled(ctx, a)
		edit(ctx, a, func(w W) { w.Spec.Size++ })
		Eventually(seen.all).Should(Equal([]string{"watch begins for a", "hangs"}))
		remove(ctx, a)
		Eventually(seen.all).Should(HaveLen(3))
		Expect(seen.all()[2]).To(Equal("watch ends for a: " + daemons.ErrDeleted.Error()))
		close(leave)
		Eventually(gone(ctx, a)).Should(BeTrue())
	}, SpecTimeout(minute))

	It("also end for objects that are deleted without a finalizer (SE-18, B-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, stays[W](seen, "watch"))))
		Eventually(seen.all).Should(HaveLen(1))
		edit(ctx, a, func(w W) { w.Finalizers = nil })
		remove(ctx, a)
		Eventually(seen.all).Should(HaveLen(2))
		Expect(seen.all()[1]).To(Equal("watch ends for a: " + daemons.ErrDeleted.Error()))
	}, SpecTimeout(minute))

	It("do not write to a new object of the same name (B-06)", func(ctx context.Context) {
		ns, seen, leave := newNamespace(ctx), &calls{}, make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Daemon("late", daemons.Daemon{CancellationTimeout: new(time.Duration(0))}, func(ctx context.Context, req *kopf.Request[W]) error {
			if req.Object.Spec.Color != "red" {
				return nil
			}
			seen.notef("begins")
			<-leave
			req.Object.Status.Phase = "outdated"
			req.Object.Labels = map[string]string{"from": "the-past"}
			return nil
		})))
		Eventually(seen.all).Should(HaveLen(1))
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue())
		b := widget(ns, "a")
		b.Spec.Color = "blue"
		create(ctx, b)
		close(leave)
		Consistently(fresh(ctx, b)).Should(And(HaveField("Status.Phase", BeEmpty()), HaveField("ObjectMeta.Labels", BeEmpty())))
	}, SpecTimeout(minute))

	It("have no sub-handlers, and fail permanently if they declare one", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		create(ctx, widget(ns, "a"))
		declares := func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s", req.Handler)
			req.Sub("sub", ok[W](seen, "sub"))
			return nil
		}
		r := start(ns, options(kopf.For(&v1.Widget{}).Daemon("daemon", daemons.Daemon{}, declares).Timer("timer", daemons.Timer{Interval: time.Millisecond}, declares)))
		Eventually(func() []string {
			return r.log.find("Daemon failed permanently", "daemon handlers cannot have sub-handlers")
		}).ShouldNot(BeEmpty())
		Eventually(func() []string {
			return r.log.find("Timer failed permanently", "timer handlers cannot have sub-handlers")
		}).ShouldNot(BeEmpty())
		Expect(seen.all()).To(ConsistOf("daemon", "timer"))
	}, SpecTimeout(minute))

	It("have a logger that identifies them (DAE-19, LOG)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		create(ctx, widget(ns, "a"))
		r := start(ns, options(kopf.For(&v1.Widget{}).Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[W]) error {
			log.FromContext(ctx).Info("Daemon is running")
			seen.notef("said")
			return nil
		})))
		Eventually(seen.all).Should(HaveLen(1))
		Expect(r.log.find("Daemon is running")).To(ConsistOf(And(
			ContainSubstring(`"handler"="watch"`), ContainSubstring(`"reason"="daemon"`), ContainSubstring(`"attempt"=0`),
			ContainSubstring(`"name"="a"`), ContainSubstring(`"kind"="Widget"`))))
	}, SpecTimeout(minute))
})

// wait waits for a duration. It returns false if the context ends earlier.
func wait(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

var _ = Describe("Handlers with CancelOnDelete", func() {
	type W = *v1.Widget

	It("are cancelled when their object is deleted, and do not delay the deletion (SE-53)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		var once sync.Once
		works := func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("%s begins", req.Handler)
			<-ctx.Done()
			once.Do(func() { seen.notef("%s: %v", req.Handler, context.Cause(ctx)) })
			return context.Cause(ctx)
		}
		r := start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("long", works, kopf.CancelOnDelete()).
			OnCreate("next", ok[W](seen, "next")).
			OnDelete("bye", ok[W](seen, "bye"))))
		Eventually(seen.all).Should(Equal([]string{"long begins"}))
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"long begins", "long: " + daemons.ErrDeleted.Error(), "bye:delete"}))
		Expect(r.log.find("interrupted")).NotTo(BeEmpty())
	}, SpecTimeout(minute))

	It("are also cancelled if they are reconcile handlers", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnReconcile("sync", func(ctx context.Context, _ *kopf.Request[W]) error {
				seen.notef("begins")
				<-ctx.Done()
				seen.notef("%v", context.Cause(ctx))
				return nil
			}, kopf.CancelOnDelete())))
		Eventually(seen.all).Should(HaveLen(1))
		remove(ctx, a)
		Eventually(seen.all).Should(Equal([]string{"begins", daemons.ErrDeleted.Error()}))
	}, SpecTimeout(minute))
})
