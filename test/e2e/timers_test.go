package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// fixedInterval is a schedule with a fixed interval since the zero time.
type fixedInterval time.Duration

func (s fixedInterval) Next(from time.Time) time.Time {
	return from.Truncate(time.Duration(s)).Add(time.Duration(s))
}

var _ = Describe("Timers", func() {
	type W = *v1.Widget
	const tick = 50 * time.Millisecond
	calledFor := func(seen *calls, entry string) func() int { return func() int { return seen.count(entry) } }

	It("are called repeatedly with the present state, until the object is deleted (TIM-01, TIM-02, TIM-03, TIM-11)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).Timer("poll", daemons.Timer{Interval: tick}, func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("%s %d #%d", req.Reason, req.Object.Spec.Size, req.Attempt.Number)
			return nil
		})))
		Eventually(calledFor(seen, "timer 1 #0")).Should(BeNumerically(">", 3))
		Expect(fresh(ctx, a)()).To(HaveField("ObjectMeta.Finalizers", ConsistOf(kopf.DefaultFinalizer)))
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(calledFor(seen, "timer 2 #0")).Should(BeNumerically(">", 3))
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue())
		n := len(seen.all())
		Consistently(seen.all).Should(HaveLen(n))
	}, SpecTimeout(minute))

	It("write their changes after each call; the changes are not updates, and do not restart the idle time (DAE-13, TIM-06, TIM-07, SE-11, B-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		var n atomic.Int64
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("create", ok[W](seen, "create")).
			OnUpdate("update", ok[W](seen, "update")).
			Timer("counts", daemons.Timer{Interval: tick, Idle: 2 * tick}, func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Spec.Size = int(n.Add(1))
				req.Object.Spec.Tags = []string{fmt.Sprint(req.Object.Spec.Size)}
				req.Object.Status.Phase = fmt.Sprint(req.Object.Spec.Size)
				return nil
			})))
		Eventually(fresh(ctx, a)).Should(HaveField("Spec.Size", BeNumerically(">", 5)))
		Expect(seen.count("update:update")).To(BeZero())
		edit(ctx, a, func(w W) { w.Spec.Color = "blue" })
		Eventually(seen.all).Should(ContainElement("update:update"))
		size := n.Load()
		Eventually(n.Load).Should(BeNumerically(">", size+3))
		Expect(seen.count("update:update")).To(Equal(1))
		Eventually(func(g Gomega) {
			now, err := fresh(ctx, a)()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Annotations[baselineKey]).To(ContainSubstring(`"color":"blue"`))
		}).Should(Succeed())
	}, SpecTimeout(minute))

	It("continue while a handler of their object runs or fails, and do not block the handler (TIM-16)", func(ctx context.Context) {
		ns, seen, leave := newNamespace(ctx), &calls{}, make(chan struct{})
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			OnCreate("hangs", func(context.Context, *kopf.Request[W]) error { seen.notef("hangs"); <-leave; return nil }).
			OnUpdate("fails", fails[W](seen, "fails", errors.New("not yet")), kopf.Backoff(tick)).
			Timer("poll", daemons.Timer{Interval: tick}, ok[W](seen, "poll")).
			Timer("slow", daemons.Timer{Interval: tick}, func(ctx context.Context, _ *kopf.Request[W]) error {
				seen.notef("slow")
				<-ctx.Done()
				return nil
			})))
		Eventually(seen.all).Should(ContainElement("hangs"))
		n := seen.count("poll:timer")
		Eventually(calledFor(seen, "poll:timer")).Should(BeNumerically(">", n+3))
		close(leave)
		handled(ctx, a)
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(seen.all).Should(ContainElement("fails:update#3"))
		n = seen.count("poll:timer")
		Eventually(calledFor(seen, "poll:timer")).Should(BeNumerically(">", n+3))
		Expect(seen.count("slow")).To(Equal(1), "calls of a timer must not overlap")
	}, SpecTimeout(minute))

	It("that fail are retried within their limits; after a permanent error they wait for a change of the essence (TIM-12, TIM-13, TIM-14, B-41, SE-19)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			Timer("chain", daemons.Timer{Interval: tick}, failsUntil[W](seen, "chain", 2, errors.New("not yet")), kopf.Backoff(time.Millisecond)).
			Timer("dead", daemons.Timer{Interval: tick}, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("dead %d", req.Object.Spec.Size)
				return kopf.Permanent(errors.New("never"))
			})))
		Eventually(calledFor(seen, "chain:timer#2")).Should(BeNumerically(">", 2))
		Expect(seen.count("chain:timer#3")).To(BeZero())
		Expect(seen.count("dead 1")).To(Equal(1))
		editStatus(ctx, a, func(w W) { w.Status.Phase = "other" })
		Consistently(calledFor(seen, "dead 1")).Should(Equal(1))
		edit(ctx, a, func(w W) { w.Spec.Size = 2 })
		Eventually(calledFor(seen, "dead 2")).Should(Equal(1))
		Consistently(calledFor(seen, "dead 2")).Should(Equal(1))
	}, SpecTimeout(minute))

	It("that have failed or are idle ignore edits by the operator, even together with other writes (TIM-06, B-13, B-41)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		var n atomic.Int64
		start(ns, options(kopf.For(&v1.Widget{}).
			Timer("dead", daemons.Timer{Interval: tick}, func(context.Context, *kopf.Request[W]) error {
				seen.notef("dead")
				return kopf.Permanent(errors.New("never"))
			}).
			Timer("once", daemons.Timer{Idle: 4 * tick}, ok[W](seen, "once")).
			Timer("status", daemons.Timer{Interval: time.Millisecond}, func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Status.Phase = fmt.Sprint("at ", time.Now().UnixNano()) // each change requeues the object
				return nil
			}).
			Timer("edits", daemons.Timer{Interval: tick / 5}, func(_ context.Context, req *kopf.Request[W]) error {
				req.Object.Spec.Size = int(n.Add(1))
				return nil
			})))
		Eventually(fresh(ctx, a)).Should(HaveField("Spec.Size", BeNumerically(">", 100)))
		Expect(seen.count("dead")).To(Equal(1))
		Expect(seen.count("once:timer")).To(Equal(1))
	}, SpecTimeout(minute))

	It("with Idle wait until their object is unchanged for the idle time; without an interval they are then called once (TIM-05, TIM-08, TIM-09, SE-13)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		start(ns, options(kopf.For(&v1.Widget{}).
			Timer("once", daemons.Timer{Idle: 10 * tick}, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("once %d", req.Object.Spec.Size)
				return nil
			}).
			Timer("again", daemons.Timer{Interval: tick, Idle: 10 * tick}, func(_ context.Context, req *kopf.Request[W]) error {
				seen.notef("again %d", req.Object.Spec.Size)
				return nil
			})))
		Eventually(seen.all).Should(ContainElements("once 1", "again 1"))
		for size := 2; size < 5; size++ {
			edit(ctx, a, func(w W) { w.Spec.Size = size })
		}
		Eventually(seen.all).Should(ContainElements("once 4", "again 4"))
		Eventually(calledFor(seen, "again 4")).Should(BeNumerically(">", 3))
		Expect(seen.count("once 1")).To(Equal(1))
		Expect(seen.count("once 4")).To(Equal(1))
		remove(ctx, a)
		Eventually(gone(ctx, a)).Should(BeTrue(), "waiting for a change must not block the deletion")
	}, SpecTimeout(minute))

	It("with Sharp keep their schedule while the object does not pass their filters (TIM-04, DAE-04)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a, b := widget(ns, "a"), widget(ns, "b")
		a.Labels, b.Labels = map[string]string{"on": ""}, map[string]string{"off": ""}
		start(ns, options(kopf.For(&v1.Widget{}).
			Timer("sharp", daemons.Timer{Interval: time.Hour, Sharp: true}, ok[W](seen, "sharp"), kopf.Label("on")).
			Daemon("seen", daemons.Daemon{}, stays[W](seen, "seen"), kopf.Label("off"))))
		create(ctx, b)
		Eventually(seen.all).Should(ContainElement("seen begins for b"), "the operator must be running")
		create(ctx, a)
		Eventually(calledFor(seen, "sharp:timer")).Should(Equal(1), "the first call must be due at the creation")
		edit(ctx, a, func(w W) { w.Labels = b.Labels })
		Eventually(seen.all).Should(ContainElement("seen begins for a"))
		edit(ctx, a, func(w W) { w.Labels = map[string]string{"on": ""} })
		Eventually(seen.all).Should(ContainElement(HavePrefix("seen ends for a")))
		Consistently(calledFor(seen, "sharp:timer")).Should(Equal(1), "the next call is due in an hour")
	}, SpecTimeout(minute))

	It("follow schedules", func(ctx context.Context) {
		ns := newNamespace(ctx)
		create(ctx, widget(ns, "a"))
		points := make(chan time.Duration, 100)
		start(ns, options(kopf.For(&v1.Widget{}).Timer("cron", daemons.Timer{Schedule: fixedInterval(200 * time.Millisecond)}, func(context.Context, *kopf.Request[W]) error {
			points <- time.Since(time.Now().Truncate(200 * time.Millisecond))
			return nil
		})))
		for range 3 {
			Eventually(points).Should(Receive(BeNumerically("<", 150*time.Millisecond)))
		}
	}, SpecTimeout(minute))

	It("retry writes of their changes while the API server fails (SE-40, DAE-17)", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		var broken atomic.Bool
		broken.Store(true)
		r := start(ns, options(kopf.For(&v1.Widget{}).Timer("writes", daemons.Timer{Interval: tick}, func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("called")
			req.Object.Status.Phase = "written"
			return nil
		})), through(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(req *http.Request) (*http.Response, error) {
				if broken.Load() && strings.HasSuffix(req.URL.Path, "/status") {
					return nil, errors.New("injected: connection refused")
				}
				return next.RoundTrip(req)
			})
		}))
		create(ctx, a)
		Eventually(func() []string { return r.log.find("Failed to write the changes", "injected: connection refused") }).ShouldNot(BeEmpty())
		Expect(seen.all()).To(HaveLen(1), "the timer must not be called before the write")
		broken.Store(false)
		Eventually(fresh(ctx, a)).Should(HaveField("Status.Phase", "written"))
		Eventually(seen.all).Should(ContainElement("called"))
	}, SpecTimeout(minute))

	It("fail if the API server rejects their changes", func(ctx context.Context) {
		ns, seen := newNamespace(ctx), &calls{}
		a := widget(ns, "a")
		create(ctx, a)
		r := start(ns, options(kopf.For(&v1.Widget{}).Timer("asks", daemons.Timer{Interval: tick}, func(_ context.Context, req *kopf.Request[W]) error {
			seen.notef("#%d", req.Attempt.Number)
			req.Object.Spec.Size = 5000
			req.Object.Status.Phase = "half"
			return nil
		}, kopf.Backoff(tick), kopf.Retries(3))))
		Eventually(seen.all).Should(Equal([]string{"#0", "#1", "#2"}))
		Eventually(func() []string { return r.log.find("Timer failed permanently", "rejects") }).ShouldNot(BeEmpty())
		Expect(fresh(ctx, a)()).To(HaveField("Status.Phase", BeEmpty()), "no part of the rejected changes may be written")
	}, SpecTimeout(minute))

	It("keep concurrent changes of a list", func(ctx context.Context) {
		ns := newNamespace(ctx)
		a := widget(ns, "a")
		create(ctx, a)
		working, leave := make(chan struct{}), make(chan struct{})
		start(ns, options(kopf.For(&v1.Widget{}).Timer("adds", daemons.Timer{Interval: time.Hour}, func(_ context.Context, req *kopf.Request[W]) error {
			req.Object.Spec.Tags = append(req.Object.Spec.Tags, "ours")
			close(working)
			<-leave
			return nil
		})))
		Eventually(working).Should(BeClosed())
		edit(ctx, a, func(w W) { w.Spec.Tags = append(w.Spec.Tags, "theirs") })
		close(leave)
		Eventually(fresh(ctx, a)).Should(HaveField("Spec.Tags", ConsistOf("ours", "theirs")))
	}, SpecTimeout(minute))

	It("are limited to a number of objects at a time", func(ctx context.Context) {
		ns := newNamespace(ctx)
		for i := range 10 {
			create(ctx, widget(ns, fmt.Sprint("w", i)))
		}
		var running, most, total atomic.Int64
		start(ns, options(kopf.For(&v1.Widget{}).Timer("poll", daemons.Timer{Interval: time.Millisecond, MaxParallel: 2, Jitter: 0.5}, func(ctx context.Context, _ *kopf.Request[W]) error {
			defer running.Add(-1)
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			total.Add(1)
			wait(ctx, 5*time.Millisecond)
			return nil
		})))
		Eventually(total.Load).Should(BeNumerically(">", 40))
		Expect(most.Load()).To(BeEquivalentTo(2))
	}, SpecTimeout(minute))
})

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
