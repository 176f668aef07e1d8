package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
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
			OnCreate("repeated", func(context.Context, *kopf.Request[configMap]) error {
				return kopf.Temporary(errors.New("full"), 20*time.Second)
			}, kopf.Retries(2)).
			OnCreate("parent", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Sub("part", succeed)
				return nil
			}).
			Timer("timer", daemons.Timer{Interval: time.Minute}, succeed).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[configMap]) error {
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
			"create parent 1: succeeded", "create parent/part 1: succeeded", "create repeated 1: retrying full", "create repeated 2: failed gave up after 2 attempts: full",
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

// wrappedManager is a manager that a user has wrapped, for example to change one of its methods.
type wrappedManager struct{ manager.Manager }

// otherManager is a manager of another type.
type otherManager struct{ *fakeManager }

func (otherManager) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// Without a filter, the page would show the names of all objects to everyone who reaches the port.
func TestWithStatusPage_NeedsAuthentication(t *testing.T) {
	filtered := func(*rest.Config, *http.Client) (server.Filter, error) {
		return func(_ logr.Logger, handler http.Handler) (http.Handler, error) { return handler, nil }, nil
	}
	const address = "127.0.0.1:0"
	for _, test := range []struct {
		name    string
		metrics server.Options
		wrap    func(manager.Manager) manager.Manager
		options []kopf.StatusPageOption
		want    string // in the error; empty if the operator can start
	}{
		{name: "without a filter", metrics: server.Options{BindAddress: address}, want: "the metrics server does not authenticate its users"},
		{name: "without a filter, with TLS", metrics: server.Options{BindAddress: address, SecureServing: true}, want: "FilterProvider"},
		{name: "with a filter", metrics: server.Options{BindAddress: address, FilterProvider: filtered}},
		{name: "without a metrics server", metrics: server.Options{BindAddress: "0"}},
		{name: "allowed", metrics: server.Options{BindAddress: address}, options: []kopf.StatusPageOption{kopf.AllowUnauthenticated()}},
		{name: "a wrapper without a filter", metrics: server.Options{BindAddress: address}, want: "AllowUnauthenticated()",
			wrap: func(mgr manager.Manager) manager.Manager { return &wrappedManager{&wrappedManager{mgr}} }},
		{name: "a wrapper with a filter", metrics: server.Options{BindAddress: address, FilterProvider: filtered},
			wrap: func(mgr manager.Manager) manager.Manager { return wrappedManager{mgr} }},
		{name: "another type", want: "cannot see whether the metrics server of a kopf_test.otherManager",
			wrap: func(manager.Manager) manager.Manager { return otherManager{&fakeManager{}} }},
		{name: "another type, allowed", options: []kopf.StatusPageOption{kopf.AllowUnauthenticated()},
			wrap: func(manager.Manager) manager.Manager { return otherManager{&fakeManager{}} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			mgr, err := manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
				Metrics: test.metrics, MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
			})
			if err != nil {
				t.Fatal(err)
			}
			if test.wrap != nil {
				mgr = test.wrap(mgr)
			}
			err = newOperator(mgr, kopf.WithStatusPage(test.options...)).CheckDeclaration()
			if got := err != nil; got != (test.want != "") || got && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want %q", err, test.want)
			}
		})
	}
}
