package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// conditionWriter provides the handler of one operator. The handler sets random conditions; after randomWrites calls, it
// sets the same values in each call.
type conditionWriter struct {
	mu      sync.Mutex
	own     string
	random  *rand.Rand
	calls   int
	current map[string]metav1.Condition // values of the last call
}

const randomWrites = 300

func newConditionWriter(own string, seed uint64) *conditionWriter {
	return &conditionWriter{own: own, random: rand.New(rand.NewPCG(seed, 1)), current: map[string]metav1.Condition{}}
}

func (w *conditionWriter) handle(_ context.Context, req *kopf.Request[*v1.Widget]) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calls++; w.calls <= randomWrites {
		one := metav1.Condition{
			Type:   fmt.Sprintf("%s-%d", w.own, w.random.IntN(3)),
			Status: []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}[w.random.IntN(3)],
			Reason: []string{"A", "B"}[w.random.IntN(2)],
		}
		w.current[one.Type] = one
	}
	for _, one := range w.current {
		req.Conditions().Set(one)
	}
	return nil
}

func (w *conditionWriter) called() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// values returns the last value of each condition of the operator.
func (w *conditionWriter) values() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return statusesAndReasons(w.current)
}

func statusesAndReasons(conditions map[string]metav1.Condition) map[string]string {
	out := map[string]string{}
	for kind, one := range conditions {
		out[kind] = string(one.Status) + " " + one.Reason
	}
	return out
}

func byType(obj *v1.Widget) map[string]metav1.Condition {
	out := map[string]metav1.Condition{}
	for _, one := range obj.Status.Conditions {
		out[one.Type] = one
	}
	return out
}

var _ = Describe("Two operators with conditions of one object", func() {
	It("lose no condition, keep the transition time of an unchanged status, write no unchanged condition, and never decrease observedGeneration (B-60)", func(ctx context.Context) {
		ns := newNamespace(ctx)
		obj := widget(ns, "one")
		create(ctx, obj)
		watching, err := client.NewWithWatch(cp.Config, client.Options{Scheme: scheme})
		Expect(err).NotTo(HaveOccurred())
		watcher, err := watching.Watch(ctx, &v1.WidgetList{}, client.InNamespace(ns),
			&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: obj.ResourceVersion}})
		Expect(err).NotTo(HaveOccurred())
		defer watcher.Stop()

		operators := map[string]*conditionWriter{"Alpha": newConditionWriter("Alpha", 1), "Beta": newConditionWriter("Beta", 2)}
		wires, runs := []*writeRecorder{}, []*running{}
		for name, w := range operators {
			prefix, wire := map[string]string{"Alpha": "alpha", "Beta": "beta"}[name]+".example.com", &writeRecorder{}
			wires = append(wires, wire)
			runs = append(runs, start(ns, options(
				kopf.WithFinalizer(prefix+"/finalizer"), kopf.WithProgress(progress.Annotations(prefix)), kopf.WithBaseline(progress.AnnotationBaseline(prefix)),
				kopf.For(&v1.Widget{}).Timer("writes", daemons.Timer{Interval: time.Millisecond}, w.handle).
					On("follows", createOrUpdate, func(_ context.Context, req *kopf.Request[*v1.Widget]) error { // the handler runs in the same reconcile as other handlers
						req.Conditions().True(name+"-Followed", "Size", fmt.Sprint(req.Object.Spec.Size))
						return nil
					})), wire.setup()))
		}
		const edits = 30
		for n := range edits { // the edit increments the generation
			Eventually(operators["Alpha"].called).Should(BeNumerically(">", n*randomWrites/edits))
			edit(ctx, obj, func(w *v1.Widget) { w.Spec.Size = n + 2 })
		}
		for name, w := range operators {
			Eventually(w.called).WithTimeout(minute).Should(BeNumerically(">", randomWrites), name)
			Eventually(func() map[string]string {
				now, _ := fresh(ctx, obj)()
				of := byType(now)
				out := map[string]string{}
				for kind, text := range statusesAndReasons(of) {
					if _, own := w.values()[kind]; own {
						out[kind] = text
					}
				}
				return out
			}).Should(Equal(w.values()), name)
			Eventually(func() string { now, _ := fresh(ctx, obj)(); return byType(now)[name+"-Followed"].Message }).Should(Equal(fmt.Sprint(edits + 1)))
		}

		// After randomWrites calls, the timers set the same values in each call.
		sent := func() int { return len(wires[0].all()) + len(wires[1].all()) }
		before := 0
		Eventually(func() bool { last := before; before = sent(); return last == before }).WithPolling(500 * time.Millisecond).Should(BeTrue())
		called := operators["Alpha"].called()
		Consistently(sent, 2*time.Second).Should(Equal(before), "unchanged conditions must not be written")
		Expect(operators["Alpha"].called()).To(BeNumerically(">", called+10))

		end, err := fresh(ctx, obj)()
		Expect(err).NotTo(HaveOccurred())
		states, transitions := 0, 0
		known := map[string]metav1.Condition{}
		for last := ""; last != end.ResourceVersion; {
			var event watch.Event
			Eventually(watcher.ResultChan()).Should(Receive(&event))
			state, ok := event.Object.(*v1.Widget)
			Expect(ok).To(BeTrue(), "%v", event)
			last = state.ResourceVersion
			states++
			now := byType(state)
			for kind, old := range known {
				one, found := now[kind]
				Expect(found).To(BeTrue(), "%s must not be lost in version %s", kind, last)
				Expect(one.ObservedGeneration).To(BeNumerically(">=", old.ObservedGeneration), "%s in version %s", kind, last)
				if one.Status == old.Status {
					Expect(one.LastTransitionTime.Equal(&old.LastTransitionTime)).To(BeTrue(), "%s in version %s", kind, last)
				} else {
					transitions++
				}
			}
			known = now
		}
		AddReportEntry("states and transitions", fmt.Sprint(states, " and ", transitions))
		Expect(states).To(BeNumerically(">", randomWrites))
		Expect(transitions).To(BeNumerically(">", randomWrites/2))
		for _, r := range runs {
			Expect(r.log.errors()).To(BeEmpty())
		}
	}, SpecTimeout(3*minute))
})
