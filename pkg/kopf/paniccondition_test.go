package kopf_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// panicking returns a handler that panics while the switch is on.
func panicking(on *atomic.Bool) kopf.Handler[deployment] {
	return func(context.Context, *kopf.Request[deployment]) error {
		if on.Load() {
			panic("boom\nwith a second line")
		}
		return nil
	}
}

func expectDegraded(t *testing.T, cluster *kopftest.Cluster, when string, messages ...string) {
	t.Helper()
	obj := loopingDeployment("a")
	cluster.Get(t, obj)
	set, err := conditions.For(obj)
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.Condition{Status: metav1.ConditionFalse, Reason: "AsExpected"}
	if len(messages) > 0 {
		want = metav1.Condition{Status: metav1.ConditionTrue, Reason: "HandlerPanicked", Message: strings.Join(messages, "\n")}
	}
	got, _ := set.Get("Degraded")
	if got.Status != want.Status || got.Reason != want.Reason || got.Message != want.Message {
		t.Errorf("%s: condition %+v, want %s %s %q", when, got, want.Status, want.Reason, want.Message)
	}
}

// degrading are handlers that panic. Each case succeeds after the panics.
var degrading = map[string]struct {
	declare func(r *kopf.Resource[deployment], on *atomic.Bool)
	id      string
}{
	"a cause handler": {func(r *kopf.Resource[deployment], on *atomic.Bool) { r.OnCreate("work", panicking(on)) }, "work"},
	"a cause handler that fails permanently": {func(r *kopf.Resource[deployment], on *atomic.Bool) {
		r.OnCreate("work", panicking(on), kopf.ErrorMode(progress.ErrorsPermanent)).OnUpdate("work2", panicking(on))
	}, "work"},
	"a reconcile handler": {func(r *kopf.Resource[deployment], on *atomic.Bool) { r.OnReconcile("work", panicking(on)) }, "work"},
	"a timer": {func(r *kopf.Resource[deployment], on *atomic.Bool) {
		r.Timer("work", daemons.Timer{Interval: 10 * time.Second}, panicking(on))
	}, "work"},
	"a daemon that ends": {func(r *kopf.Resource[deployment], on *atomic.Bool) { r.Daemon("work", daemons.Daemon{}, panicking(on)) }, "work"},
	"a daemon that runs": {func(r *kopf.Resource[deployment], on *atomic.Bool) {
		r.Daemon("work", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[deployment]) error {
			if err := panicking(on)(ctx, req); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
	}, "work"},
	"a sub-handler": {func(r *kopf.Resource[deployment], on *atomic.Bool) {
		r.OnCreate("parent", func(_ context.Context, req *kopf.Request[deployment]) error {
			req.Sub("work", panicking(on))
			return nil
		})
	}, "parent/work"},
}

func TestWithPanicCondition(t *testing.T) {
	for name, test := range degrading {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var on atomic.Bool
				on.Store(true)
				cluster := kopftest.Memory(t)
				run := func() *kopftest.Operator {
					r := kopf.For(&appsv1.Deployment{}, kopf.WithPanicCondition("Degraded"))
					test.declare(r, &on)
					return cluster.Run(t, r)
				}
				operator := run()
				cluster.Create(t, loopingDeployment("a"))
				<-time.After(10 * time.Second)
				want := fmt.Sprintf("handler %q panicked: boom", test.id)
				expectDegraded(t, cluster, "panic", want)
				<-time.After(10 * time.Minute)
				expectDegraded(t, cluster, "after more panics", want)
				operator.Stop(t)
				operator = run()
				<-time.After(10 * time.Second)
				expectDegraded(t, cluster, "after a restart", want)
				on.Store(false)
				kopftest.Edit(t, cluster, loopingDeployment("a"), func(obj deployment) { obj.Spec.MinReadySeconds++ })
				<-time.After(3 * time.Minute)
				expectDegraded(t, cluster, "success")
				writes := len(operator.Writes())
				<-time.After(time.Hour)
				if n := len(operator.Writes()); n != writes {
					t.Errorf("%d writes without a change", n-writes)
				}
			})
		})
	}
}

func TestWithPanicCondition_SeveralHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b atomic.Bool
		a.Store(true)
		b.Store(true)
		cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
		run := func(ids ...string) *kopftest.Operator {
			r := kopf.For(&appsv1.Deployment{}, kopf.WithPanicCondition("Degraded"), kopf.WithRootCondition(conditions.Root{Not: []string{"Degraded"}}))
			r.OnReconcile("always", noChange)
			for _, id := range ids {
				r.OnReconcile(id, panicking(map[string]*atomic.Bool{"first": &a, "second": &b}[id]))
			}
			return cluster.Run(t, r)
		}
		operator := run("first", "second")
		<-time.After(10 * time.Second)
		const first, second = `handler "first" panicked: boom`, `handler "second" panicked: boom`
		expectDegraded(t, cluster, "two handlers", first, second)
		a.Store(false)
		<-time.After(20 * time.Minute)
		expectDegraded(t, cluster, "one has recovered", second)
		obj := loopingDeployment("a")
		cluster.Get(t, obj)
		if conditions.Is(obj, "Ready", metav1.ConditionTrue) {
			t.Error("the object is ready, but a handler has panicked")
		}
		operator.Stop(t)
		run("first")
		<-time.After(10 * time.Second)
		expectDegraded(t, cluster, "the handler is removed")
		cluster.Get(t, obj)
		if !conditions.Is(obj, "Ready", metav1.ConditionTrue) {
			t.Error("the object is not ready")
		}
	})
}
