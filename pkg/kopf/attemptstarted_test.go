package kopf_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A handler can compare Attempt.Started of its attempts, in the same process and in the next one. The clock of the test has odd nanoseconds.
func TestRequest_AttemptStartedIsTheSameInAllAttempts(t *testing.T) {
	const attempts = 3
	for _, test := range []struct {
		name     string
		survives bool // the progress is stored, so it survives a crash
		declare  func(*kopf.Resource[configMap], kopf.Handler[configMap])
	}{
		{name: "cause handler", survives: true, declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.OnCreate("h", fn) }},
		{name: "sub-handler", survives: true, declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) {
			r.OnCreate("parent", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Sub("h", fn)
				return nil
			})
		}},
		{name: "reconcile handler", declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.OnReconcile("h", fn) }},
		{name: "event handler", declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) {
			r.OnEvent("h", fn, kopf.Retries(attempts))
		}},
		{name: "daemon", declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) { r.Daemon("h", daemons.Daemon{}, fn) }},
		{name: "timer", declare: func(r *kopf.Resource[configMap], fn kopf.Handler[configMap]) {
			r.Timer("h", daemons.Timer{Interval: time.Hour}, fn)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t)
				var mu sync.Mutex
				var started []time.Time
				start := func() *kopftest.Operator {
					resource := kopf.For(&corev1.ConfigMap{})
					test.declare(resource, func(_ context.Context, req *kopf.Request[configMap]) error {
						mu.Lock()
						defer mu.Unlock()
						if started = append(started, req.Attempt.Started); req.Attempt.Number < attempts-1 {
							return kopf.Temporary(errors.New("again"), time.Minute)
						}
						return nil
					})
					return cluster.Run(t, resource)
				}
				operator := start()
				cluster.Create(t, newConfigMap("one"))
				<-time.After(time.Second)
				if test.survives {
					operator.Crash(t)
					operator = start()
				}
				<-time.After(2 * attempts * time.Minute)
				operator.Stop(t)
				if len(started) != attempts || len(slices.Compact(slices.Clone(started))) != 1 || started[0].Location() != time.UTC || started[0].Nanosecond()%1000 != 0 {
					t.Errorf("Started of the attempts = %v, want %d times the same time in UTC, in whole microseconds", started, attempts)
				}
				if time.Now().Nanosecond()%1000 == 0 {
					t.Errorf("the test clock shows %s, want odd nanoseconds: otherwise the test cannot fail", time.Now())
				}
			})
		})
	}
}
