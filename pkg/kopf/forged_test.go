package kopf_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Users who may edit an object can write any records. They must not block it for longer than the longest delay of a handler.
func TestForgedRecords_DoNotBlockADeletion(t *testing.T) {
	const forever = `"started":"2000-01-01T00:00:00+00:00","delayed":"2999-01-01T00:00:00+00:00","retries":1,"success":false,"failure":false`
	for name, records := range map[string]map[string]string{
		"of the deletion":     {"delete": `{"purpose":"delete",` + forever + `}`},
		"of another cause":    {"delete": `{"purpose":"update",` + forever + `}`},
		"with an attempt":     {"delete": `{"purpose":"delete","attempted":"2000-01-01T00:00:00+00:00",` + forever + `}`},
		"in the future":       {"delete": `{"purpose":"delete","retries":1,"success":false,"failure":false,"started":"2998-01-01T00:00:00+00:00","delayed":"2999-12-31T00:00:00+00:00"}`},
		"of sub-handlers":     {"delete": `{"purpose":"delete","subrefs":["delete/sub"],` + forever + `}`, "delete.sub": `{"purpose":"delete",` + forever + `}`},
		"with a huge number":  {"delete": `{"purpose":"delete","retries":9007199254740992,"started":"0001-01-01T00:00:00+00:00","success":false,"failure":false}`},
		"with many subs":      {"delete": `{"purpose":"delete","retries":0,"success":false,"failure":false,"subrefs":["` + strings.Join(subNames(20_000), `","`) + `"]}`},
		"with a negative one": {"delete": `{"purpose":"delete","retries":-1,` + `"success":false,"failure":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newConfigMap("one")
				one.Finalizers = []string{kopf.DefaultFinalizer}
				one.Annotations = map[string]string{progress.DefaultPrefix + "/last-handled-configuration": "{}\n"}
				for id, record := range records {
					one.Annotations[progress.DefaultPrefix+"/"+id] = record
				}
				cluster := kopftest.Memory(t, kopftest.Objects(one))
				called := false
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnDelete("delete", func(_ context.Context, req *kopf.Request[configMap]) error {
					called = true
					req.Sub("sub", func(context.Context, *kopf.Request[configMap]) error { return nil })
					return nil
				}, kopf.BackoffFunc(progress.Exponential(time.Second, time.Minute))))
				cluster.Delete(t, newConfigMap("one"))
				operator.RunUntilQuiet(t)
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(one), one); client.IgnoreNotFound(err) != nil || err == nil {
					t.Errorf("error = %v, want the object to be deleted", err)
				}
				if !called {
					t.Error("the delete handler was not called")
				}
			})
		})
	}
}

func subNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("delete/", i)
	}
	return names
}

// Users choose parts of error texts, for example with a long value that a handler or the API server quotes.
func TestErrors_LongTexts(t *testing.T) {
	const most = 24 << 10 // bytes in one log line, with the stack of a panic, or in an Event or a request
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		longest, lines := 0, 0
		sink := funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			longest, lines = max(longest, len(prefix)+len(args)), lines+1
		}, funcr.Options{Verbosity: 7})
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		long := func() error { return fmt.Errorf("the value %s is invalid", strings.Repeat("x", 3<<20)) }
		fail := func(_ context.Context, req *kopf.Request[configMap]) error {
			if req.Attempt.Number > 1 {
				return kopf.Permanent(long())
			}
			return long()
		}
		resource := kopf.For(&corev1.ConfigMap{}).OnCreate("create", fail, kopf.Backoff(time.Second)).
			OnReconcile("reconcile", fail, kopf.Backoff(time.Second)).
			OnEvent("event", fail).
			Daemon("daemon", daemons.Daemon{}, fail, kopf.Backoff(time.Second)).
			OnCreate("panics", func(context.Context, *kopf.Request[configMap]) error { panic(long().Error()) }, kopf.Retries(1)).
			OnCreate("rejected", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Object.Labels = map[string]string{"x": strings.Repeat("y", 1<<20)}
				return nil
			}, kopf.Retries(1))
		var self *kopf.Operator
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			self = kopf.New(mgr, resource)
			return mgr.Add(self)
		}, func(o *manager.Options) { o.Logger = sink })
		operator.RunUntilQuiet(t)
		mu.Lock()
		if longest > most || lines == 0 {
			t.Errorf("the longest of %d log lines has %d bytes, want at most %d", lines, longest, most)
		}
		mu.Unlock()
		for _, write := range operator.Writes() {
			if n := len(fmt.Sprint(write.Body)); n > most && !strings.Contains(fmt.Sprint(write.Body), strings.Repeat("y", most)) {
				t.Errorf("%s has a body of %d bytes", write, n)
			}
		}
		for _, event := range operator.Events() {
			if n := len(fmt.Sprintf("%+v", event)); n > most {
				t.Errorf("an Event has %d bytes", n)
			}
		}
		explanation, err := self.Explain(t.Context(), newConfigMap("one"))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(fmt.Sprintf("%+v", explanation)); n > most {
			t.Errorf("the explanation has %d bytes", n)
		}
		if !slices.ContainsFunc(operator.Calls(), func(c kopftest.Call) bool { return c.Handler == "rejected" }) {
			t.Error("the handler with the rejected change was not called")
		}
	})
}
