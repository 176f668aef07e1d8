package kopf_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// isEventRequest reports whether a request lists or watches Events.
func isEventRequest(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/events")
}

func rejectEvents(code int) func(r *http.Request) interception {
	return func(r *http.Request) interception {
		if isEventRequest(r) {
			return interception{code: code}
		}
		return interception{}
	}
}

// expectReadyz compares the error of Readyz with the parts of a text, or expects no error without parts.
func expectReadyz(t *testing.T, when string, op *kopf.Operator, parts ...string) {
	t.Helper()
	err := op.Readyz(nil)
	if len(parts) == 0 && err != nil || len(parts) > 0 && err == nil {
		t.Errorf("%s: Readyz = %v, want %q", when, err, parts)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: Readyz = %v, want %q", when, err, part)
		}
	}
}

// eventWatchProblems returns the value of the metric for forbidden watches of Events, and false if it has no time series.
func eventWatchProblems(t *testing.T) (value float64, found bool) {
	t.Helper()
	collected := make(chan prometheus.Metric, 100)
	metrics.WatchProblems.Collect(collected)
	close(collected)
	for one := range collected {
		var m dto.Metric
		if err := one.Write(&m); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(m.Label); strings.Contains(text, `"event"`) && strings.Contains(text, `"forbidden"`) {
			return m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}

func TestOnEventAbout_ReadyzReportsMissingPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
		requests := intercept(cluster, func(*http.Request) interception { return interception{} })
		var op *kopf.Operator
		running := cluster.RunManager(t, func(mgr manager.Manager) error {
			op = kopf.New(mgr, kopf.For(&corev1.ConfigMap{}).
				OnEventAbout("first", clusterevents.Selector{About: []client.Object{&corev1.Pod{}, &corev1.ConfigMap{}}}, noteEvents(seen)).
				OnEventAbout("second", clusterevents.Selector{}, noteEvents(seen)))
			return mgr.Add(op)
		})
		<-time.After(time.Minute)
		expectReadyz(t, "with all permissions", op)
		requests.set(rejectEvents(http.StatusForbidden))
		<-time.After(2 * time.Hour) // the API server ends each watch after at most one hour
		expectReadyz(t, "without the permission", op, "Event: the operator has not been allowed to watch objects in all namespaces for ", "grant the verbs list and watch")
		if n := strings.Count(fmt.Sprint(op.Readyz(nil)), "not been allowed"); n != 1 {
			t.Errorf("Readyz has %d errors for one missing permission, want 1: %v", n, op.Readyz(nil))
		}
		if err := op.Healthz(nil); err != nil {
			t.Errorf("Healthz = %v, want no error because a restart cannot help", err)
		}
		if value, _ := eventWatchProblems(t); value != 3 {
			t.Errorf("metric = %v, want 3 watches", value)
		}
		requests.stop()
		<-time.After(2 * time.Minute)
		expectReadyz(t, "with the permission again", op)
		if value, found := eventWatchProblems(t); value != 0 || !found {
			t.Errorf("metric = %v, want 0", value)
		}
		running.Stop(t)
		if _, found := eventWatchProblems(t); found {
			t.Error("the metric remains after the end of the operator")
		}
	})
}

func TestOnEventAbout_ReadyzWaitsForTheFirstList(t *testing.T) {
	for name, test := range map[string]struct {
		options []kopf.Option
		code    int
		want    string
	}{
		"an error":           {nil, http.StatusInternalServerError, `handler "seen": the operator has not listed the Events about the kind ConfigMap in all namespaces yet: injected`},
		"forbidden":          {nil, http.StatusForbidden, "Event: the operator has not been allowed to watch objects in all namespaces for "},
		"without the checks": {[]kopf.Option{kopf.WithWatchCheck(0)}, http.StatusForbidden, `handler "seen": the operator has not listed the Events about the kind ConfigMap in all namespaces yet: injected`},
		"one namespace":      {[]kopf.Option{kopf.WithNamespaces("default")}, http.StatusInternalServerError, `about the kind ConfigMap in namespace "default" yet: injected`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster, seen := kopftest.Memory(t, kopftest.Objects(newNamespace("default"), newConfigMap("one"))), &steps{}
				requests := intercept(cluster, rejectEvents(test.code))
				op := runOperator(t, cluster, append(test.options, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{}, noteEvents(seen)))...)
				<-time.After(time.Minute)
				expectReadyz(t, "before the first list", op, test.want)
				requests.set(func(r *http.Request) interception {
					if isEventRequest(r) {
						return interception{delay: time.Minute}
					}
					return interception{}
				})
				<-time.After(5 * time.Minute)
				expectReadyz(t, "after the first list", op)
			})
		})
	}
}

func TestOnEventAbout_ReadyzDuringTheFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, seen := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))), &steps{}
		intercept(cluster, func(r *http.Request) interception {
			return interception{delay: map[bool]time.Duration{true: time.Minute}[isEventRequest(r)]}
		})
		op := runOperator(t, cluster, kopf.For(&corev1.ConfigMap{}).OnEventAbout("seen", clusterevents.Selector{}, noteEvents(seen)))
		<-time.After(30 * time.Second)
		expectReadyz(t, "during the first request", op, `handler "seen": the operator has not listed the Events about the kind ConfigMap in all namespaces yet`)
		<-time.After(time.Minute)
		expectReadyz(t, "afterwards", op)
	})
}
