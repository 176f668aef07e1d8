package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var _ = Describe("A restart", func() {
	type W = *v1.Widget

	It("between the write of the finalizer and the first handler call loses no change (FIN-03, PIPE-23)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(opts ...kopf.ResourceOption) []kopf.Option {
			return options(kopf.For(&v1.Widget{}, opts...).
				OnCreate("created", ok[W](seen, "created")).
				OnDelete("deleted", ok[W](seen, "deleted")))
		}
		// The predicate drops the event of our own write, so that no reconcile follows the write of the finalizer.
		halting := start(ns, declare(kopf.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(fresh(ctx, obj)).Should(HaveField("Finalizers", ConsistOf(kopf.DefaultFinalizer)))
		halting.stop()
		Expect(seen.all()).To(BeEmpty())
		Expect(fresh(ctx, obj)()).NotTo(HaveField("Annotations", HaveKey(baselineKey)))

		start(ns, declare())
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create"}))
		remove(ctx, obj)
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()).To(Equal([]string{"created:create", "deleted:delete"}))
	}, SpecTimeout(minute))

	It("during a delay calls only the unfinished handlers, when they are due (PROG-29, DLY-13)", func(ctx context.Context) {
		const delay = 2 * time.Second
		ns, seen, second := newNamespace(ctx), &calls{}, &timeline{}
		declare := func() []kopf.Option {
			return options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
				OnCreate("first", ok[W](seen, "first")).
				OnCreate("second", timed(second, failsUntil[W](seen, "second", 1, errOutOfOrder)), kopf.Backoff(delay)))
		}
		before := start(ns, declare())
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", 1))
		Expect(recordOf(ctx, obj, "first")()).To(HaveField("Success", true))
		Consistently(seen.all, delay/2).Should(Equal([]string{"first:create", "second:create#0"}))
		before.stop()

		restarted := time.Now()
		start(ns, declare())
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create#0", "second:create#1"}))
		attempts := second.attempts()
		Expect(attempts[1].Last).To(Equal("out of order"))
		Expect(attempts[1].Started).To(BeTemporally("~", attempts[0].Started, time.Millisecond))
		Expect(second.gaps()).To(HaveExactElements(BeNumerically(">=", delay-timeTolerance)))
		Expect(second.times()[1].Sub(restarted)).To(BeNumerically("<", delay), "the restart must not restart the delay")
	}, SpecTimeout(minute))

	It("between the handlers of an update or a deletion calls the remaining handlers, and also resume handlers (PROG-29, CAUSE-25)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(outcome error) *kopf.Resource[W] {
			return kopf.For(&v1.Widget{}).
				OnUpdate("update-1", ok[W](seen, "update-1")).
				OnUpdate("update-2", fails[W](seen, "update-2", outcome)).
				OnDelete("delete-1", ok[W](seen, "delete-1")).
				OnDelete("delete-2", fails[W](seen, "delete-2", outcome))
		}
		due := func(r *progress.Record) { r.Delayed = time.Now() }
		failing := kopf.Temporary(errOutOfOrder, time.Hour)
		obj := widget(ns, "one")
		handledBefore(ctx, obj, declare(nil))
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		first := start(ns, options(declare(failing)))
		Eventually(recordOf(ctx, obj, "update-2")).Should(HaveField("Retries", 1))
		first.stop()
		editRecord(ctx, obj, "update-2", due)

		second := start(ns, options(declare(nil).OnResume("resumed", ok[W](seen, "resumed"))))
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"update-1:update", "update-2:update#0", "update-2:update#1", "resumed:update"}))
		second.stop()

		third := start(ns, options(declare(failing)))
		remove(ctx, obj)
		Eventually(recordOf(ctx, obj, "delete-2")).Should(HaveField("Retries", 1))
		third.stop()
		editRecord(ctx, obj, "delete-2", due)
		start(ns, options(declare(nil).OnResume("resumed", ok[W](seen, "resumed"))))
		Eventually(gone(ctx, obj)).Should(BeTrue())
		Expect(seen.all()[4:]).To(Equal([]string{"delete-1:delete", "delete-2:delete#0", "delete-2:delete#1"}))
	}, SpecTimeout(minute))

	It("during a long delay calls no waiting handlers, but handlers that have become due are called immediately (DLY-13, B-03)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("created", failsUntil[W](seen, "created", 1, kopf.Temporary(errOutOfOrder, time.Hour))))
		}
		first := start(ns, declare())
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(recordOf(ctx, obj, "created")).Should(HaveField("Retries", 1))
		first.stop()

		second := start(ns, declare())
		Consistently(seen.all, quietTime).Should(HaveLen(1))
		second.stop()

		editRecord(ctx, obj, "created", func(r *progress.Record) { r.Delayed = time.Now().Add(-time.Minute) })
		start(ns, declare())
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"created:create#0", "created:create#1"}))
	}, SpecTimeout(minute))

	It("during a handler does not count its attempt, and keeps earlier attempts (PROG-29)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(second kopf.Handler[W]) []kopf.Option {
			return options(kopf.WithCheckpoint(0), kopf.For(&v1.Widget{}).
				OnCreate("first", ok[W](seen, "first")).
				OnCreate("second", second).
				OnCreate("third", ok[W](seen, "third")))
		}
		before := start(ns, declare(func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("second:%s#%d", req.Reason, req.Attempt.Number)
			<-ctx.Done()
			return fmt.Errorf("interrupted: %w", context.Cause(ctx))
		}))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(HaveLen(2))
		before.stop()
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create#0"}))

		start(ns, declare(failsUntil[W](seen, "second", 0, nil)))
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create#0", "second:create#0", "third:create"}))
	}, SpecTimeout(minute))

	It("keeps the outcome of a handler that ended during the shutdown", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		declare := func(first kopf.Handler[W]) []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnCreate("first", first).
				OnCreate("second", ok[W](seen, "second")))
		}
		before := start(ns, declare(func(ctx context.Context, req *kopf.Request[W]) error {
			seen.notef("first:%s", req.Reason)
			<-ctx.Done()
			req.Object.Status.Phase = "done"
			return nil
		}))
		obj := widget(ns, "one")
		create(ctx, obj)
		Eventually(seen.all).Should(HaveLen(1))
		before.stop()
		Expect(fresh(ctx, obj)()).To(HaveField("Status.Phase", "done"))

		start(ns, declare(ok[W](seen, "first")))
		handled(ctx, obj)
		Expect(seen.all()).To(Equal([]string{"first:create", "second:create"}))
	}, SpecTimeout(minute))

	It("retries resume handlers until they succeed once (CAUSE-20, CAUSE-21)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created")))

		start(ns, options(kopf.For(&v1.Widget{}).
			OnResume("first", ok[W](seen, "first")).
			OnResume("second", failsUntil[W](seen, "second", 2, errOutOfOrder), kopf.Backoff(50*time.Millisecond))))
		Eventually(seen.all).Should(Equal([]string{"first:resume", "second:resume#0", "second:resume#1", "second:resume#2"}))
		handled(ctx, obj)
		edit(ctx, obj, func(w W) { w.Spec.Size = 2 })
		Consistently(seen.all, quietTime).Should(HaveLen(4), "resume handlers must be called once per process")
	}, SpecTimeout(minute))

	It("during a resume cycle continues the delays, and calls the finished handlers of the earlier process again (PROG-29)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		obj := widget(ns, "one")
		handledBefore(ctx, obj, kopf.For(&v1.Widget{}).OnCreate("created", ok[W](&calls{}, "created")))

		declare := func() []kopf.Option {
			return options(kopf.For(&v1.Widget{}).
				OnResume("first", ok[W](seen, "first")).
				OnResume("second", failsUntil[W](seen, "second", 1, kopf.Temporary(errOutOfOrder, 4*time.Second)))) // longer than the time until the operator has stopped
		}
		before := start(ns, declare())
		Eventually(recordOf(ctx, obj, "second")).Should(HaveField("Retries", 1))
		before.stop()

		start(ns, declare())
		Eventually(seen.all).Should(Equal([]string{"first:resume", "second:resume#0", "first:resume", "second:resume#1"}))
		handled(ctx, obj)
		Consistently(seen.all, quietTime).Should(HaveLen(4))
	}, SpecTimeout(minute))
})

// errOutOfOrder is the error of failing handlers.
var errOutOfOrder = errors.New("out of order")

// handledBefore creates the object and runs an operator until the object is handled.
func handledBefore(ctx context.Context, obj client.Object, opts ...kopf.Option) {
	GinkgoHelper()
	earlier := start(obj.GetNamespace(), opts)
	create(ctx, obj)
	handled(ctx, obj)
	earlier.stop()
}

// recordOf returns the record of a handler from the server, or nil if it is missing.
func recordOf[T client.Object](ctx context.Context, obj T, id string) func() (*progress.Record, error) {
	return func() (*progress.Record, error) {
		now, err := fresh(ctx, obj)()
		if err != nil {
			return nil, err
		}
		return progress.Smart().Fetch(now, id)
	}
}

// editRecord changes the stored record of a handler.
func editRecord[T client.Object](ctx context.Context, obj T, id string, change func(*progress.Record)) {
	GinkgoHelper()
	edit(ctx, obj, func(now T) {
		record, err := progress.Smart().Fetch(now, id)
		Expect(err).NotTo(HaveOccurred())
		Expect(record).NotTo(BeNil())
		change(record)
		Expect(progress.Smart().Store(now, id, *record)).To(Succeed())
	})
}

// timeTolerance is the tolerance for times in records, which are truncated to microseconds.
const timeTolerance = time.Millisecond

// A timeline records the time and the attempt of each call of a handler.
type timeline struct {
	mu    sync.Mutex
	at    []time.Time
	tries []progress.Attempt
}

// timed returns a handler that records its calls in a timeline.
func timed[T client.Object](line *timeline, fn kopf.Handler[T]) kopf.Handler[T] {
	return func(ctx context.Context, req *kopf.Request[T]) error {
		line.mu.Lock()
		line.at, line.tries = append(line.at, time.Now()), append(line.tries, req.Attempt)
		line.mu.Unlock()
		return fn(ctx, req)
	}
}

func (l *timeline) times() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]time.Time(nil), l.at...)
}

func (l *timeline) attempts() []progress.Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]progress.Attempt(nil), l.tries...)
}

// gaps returns the times between successive calls.
func (l *timeline) gaps() []time.Duration {
	var out []time.Duration
	times := l.times()
	for i := 1; i < len(times); i++ {
		out = append(out, times[i].Sub(times[i-1]))
	}
	return out
}
