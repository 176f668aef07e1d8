package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// explainAfter runs an operator for a time, and explains one object while it is running.
func explainAfter(t *testing.T, d time.Duration, options ...kopf.Option) *explain.Explanation {
	t.Helper()
	cluster := kopftest.Memory(t)
	obj := newConfigMap("orders")
	cluster.Create(t, obj)
	var operator *kopf.Operator
	cluster.RunManager(t, func(mgr manager.Manager) error {
		operator = kopf.New(mgr, options...)
		return mgr.Add(operator)
	})
	<-time.After(d) // in virtual time
	synctest.Wait()
	x, err := operator.Explain(t.Context(), obj)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExplain_Attempts(t *testing.T) {
	succeed := func(context.Context, *kopf.Request[configMap]) error { return nil }
	resource := func() kopf.Option {
		return kopf.For(&corev1.ConfigMap{}).
			OnCreate("retried", func(context.Context, *kopf.Request[configMap]) error {
				return kopf.Temporary(errors.New("full"), 20*time.Second)
			}, kopf.Retries(2)).
			OnCreate("parent", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Sub("part", succeed)
				return nil
			}).
			Timer("timer", time.Minute, succeed).
			Daemon("daemon", func(ctx context.Context, _ *kopf.Request[configMap]) error {
				<-ctx.Done()
				return nil
			})
	}
	synctest.Test(t, func(t *testing.T) {
		x := explainAfter(t, 30*time.Second, resource(), kopf.WithStatusPage())
		var got []string
		for _, a := range x.Attempts {
			if a.Started.IsZero() || (a.State == explain.Active) != a.Ended.IsZero() {
				t.Errorf("the attempt has wrong times: %+v", a)
			}
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %d: %s %s", a.Reason, a.Handler, a.Number, a.State, a.Error)))
		}
		slices.Sort(got)
		want := []string{
			"create parent 1: succeeded", "create parent/part 1: succeeded", "create retried 1: retrying full", "create retried 2: failed gave up after 2 attempts: full",
			"daemon daemon 1: active", "timer timer 1: succeeded",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if x := explainAfter(t, 30*time.Second, resource()); x.Attempts != nil {
			t.Errorf("without the page, the operator records attempts: %+v", x.Attempts)
		}
	})
}
