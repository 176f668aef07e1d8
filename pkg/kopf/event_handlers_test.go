package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// setSeen copies the value of the key "size" to a label and to the result.
func setSeen(_ context.Context, req *kopf.Request[configMap]) error {
	size := req.Object.Data["size"]
	if size == "" {
		return nil
	}
	req.Object.Labels = map[string]string{"seen": size}
	req.SetResult(size)
	return nil
}

func setSize(size string) func(configMap) {
	return func(obj configMap) {
		if obj.Data == nil {
			obj.Data = map[string]string{}
		}
		obj.Data["size"] = size
	}
}

// RES-04: results of event handlers.
func TestWriteChanges(t *testing.T) {
	for name, write := range map[string]bool{"WriteChanges": true, "the default": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var options []kopf.HandlerOption
				if write {
					options = append(options, kopf.WriteChanges())
				}
				updates := 0
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}, kopf.WithResults("data")).
					OnEvent("seen", setSeen, options...).
					OnUpdate("update", func(_ context.Context, req *kopf.Request[configMap]) error {
						updates++
						if seen := req.Object.Labels["seen"]; write != (seen == "2") {
							t.Errorf("the update handler sees the label %q, want \"2\": %t", seen, write)
						}
						return nil
					}))
				operator.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), setSize("2"))
				operator.RunUntilQuiet(t)
				obj := newConfigMap("one")
				cluster.Get(t, obj)
				if want := map[bool]string{true: "2", false: ""}[write]; obj.Data["seen"] != want || obj.Labels["seen"] != want || updates != 1 {
					t.Errorf("data = %v and labels = %v after %d updates, want seen = %q after 1 update: changes of event handlers are not updates",
						obj.Data, obj.Labels, updates, want)
				}
				writes := len(operator.Writes())
				operator.Stop(t)
				operator = cluster.Run(t, kopf.For(&corev1.ConfigMap{}, kopf.WithResults("data")).OnEvent("seen", setSeen, options...))
				operator.RunUntilQuiet(t)
				if again := operator.Writes(); len(again) > 1 { // the annotations of the first operator may be removed
					t.Errorf("writes = %v after the %d of the first operator, want none for the changes", again, writes)
				}
				cluster.Delete(t, newConfigMap("one"))
				operator.RunUntilQuiet(t)
			})
		})
	}
}

// Event handlers receive each observed state, also an old one. Only what they change is written.
func TestWriteChanges_OfOldStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var edited bool
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnEvent("label", func(_ context.Context, req *kopf.Request[configMap]) error {
				if !edited {
					edited = true
					kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) {
						setSize("3")(obj)
						obj.Labels = map[string]string{"other": "client"}
					})
				}
				if req.Object.Labels == nil {
					req.Object.Labels = map[string]string{}
				}
				req.Object.Labels["seen"] = "yes"
				return nil
			}, kopf.WriteChanges()))
		operator.RunUntilQuiet(t)
		obj := newConfigMap("one")
		cluster.Get(t, obj)
		if obj.Data["size"] != "3" || obj.Labels["other"] != "client" || obj.Labels["seen"] != "yes" {
			t.Errorf("data = %v and labels = %v, want those of both", obj.Data, obj.Labels)
		}
	})
}

// A failed write is retried, and a change that the API server rejects is dropped.
func TestWriteChanges_FailedWrites(t *testing.T) {
	for name, test := range map[string]struct {
		fault kopftest.Fault
		want  string
	}{
		"unavailable": {kopftest.Fault{Verb: "patch", Code: 503, Times: 2}, "2"},
		"lost":        {kopftest.Fault{Verb: "patch", Lost: true, Times: 1}, "2"},
		"conflict":    {kopftest.Fault{Verb: "patch", Code: 409, Times: 2}, "2"},
		"rejected":    {kopftest.Fault{Verb: "patch", Code: 422, Times: 1000}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one := newConfigMap("one")
				cluster := kopftest.Memory(t, kopftest.Objects(one))
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}, kopf.WithResults("data")).OnEvent("seen", setSeen, kopf.WriteChanges()))
				operator.InjectFaults(test.fault)
				kopftest.Edit(t, cluster, newConfigMap("one"), setSize("2"))
				operator.RunUntilQuiet(t)
				cluster.Get(t, one)
				if one.Data["seen"] != test.want || one.Labels["seen"] != test.want {
					t.Errorf("data = %v and labels = %v, want seen = %s", one.Data, one.Labels, test.want)
				}
			})
		})
	}
}

func TestOnEvent_Retries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		var calls []string
		fails := map[string]int{"1": 2, "deleted": 1, "3": 100}
		call := func(id string) kopf.Handler[configMap] {
			return func(_ context.Context, req *kopf.Request[configMap]) error {
				state := req.Object.Data["size"]
				if req.Event == "DELETED" {
					state = "deleted"
				}
				calls = append(calls, fmt.Sprintf("%s %s %d", id, state, req.Attempt.Number))
				if fails[state] > req.Attempt.Number && id == "retried" {
					return errors.New("not yet")
				}
				return nil
			}
		}
		created := 0
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnEvent("retried", call("retried"), kopf.Retries(3), kopf.Backoff(10*time.Second)).
			OnEvent("other", call("other")).
			OnCreate("create", func(context.Context, *kopf.Request[configMap]) error { created++; return nil }, kopf.Field("data.size")))
		one := newConfigMap("one")
		setSize("1")(one)
		cluster.Create(t, one)
		<-time.After(5 * time.Second) // the first attempt has failed
		if created != 1 {
			t.Errorf("created = %d, want 1: the other handlers do not wait", created)
		}
		kopftest.Edit(t, cluster, newConfigMap("one"), setSize("2"))
		<-time.After(3 * time.Second)
		if last := calls[len(calls)-1]; last != "other 1 0" {
			t.Errorf("calls = %q, want no call for the second state before the retries", calls)
		}
		operator.RunUntilQuiet(t)
		kopftest.Edit(t, cluster, newConfigMap("one"), setSize("3"))
		operator.RunUntilQuiet(t)
		cluster.Delete(t, newConfigMap("one"))
		operator.RunUntilQuiet(t)
		var retried []string
		for _, call := range slices.Compact(calls) { // each write of the framework is an event
			if call[:5] == "retri" {
				retried = append(retried, call)
			}
		}
		want := []string{
			"retried 1 0", "retried 1 1", "retried 1 2", "retried 1 0", "retried 1 1", "retried 1 2", "retried 2 0", "retried 2 0",
			"retried 3 0", "retried 3 1", "retried 3 2", "retried 3 0", "retried 3 1", "retried 3 2", "retried deleted 0", "retried deleted 1",
		}
		if !slices.Equal(retried, want) {
			t.Errorf("calls = %q, want %q", retried, want)
		}
	})
}

// settings.execution.default_backoff
func TestWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var calls []string
		var mu sync.Mutex
		record := func(id string) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf("%s after %s", id, time.Since(start).Round(time.Second)))
		}
		failOnce := func(id string) kopf.Handler[configMap] {
			return func(_ context.Context, req *kopf.Request[configMap]) error {
				record(id)
				if req.Attempt.Number == 0 {
					return errors.New("not yet")
				}
				return nil
			}
		}
		activity := 0
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithBackoff(7*time.Second),
			kopf.OnStartup("startup", func(context.Context) error {
				record("startup")
				if activity++; activity == 1 {
					return errors.New("not yet")
				}
				start = time.Now()
				return nil
			}),
			kopf.For(&corev1.ConfigMap{}).
				OnCreate("default", failOnce("default")).
				OnCreate("own", failOnce("own"), kopf.Backoff(3*time.Second)).
				OnCreate("parent", func(_ context.Context, req *kopf.Request[configMap]) error {
					req.Sub("sub", failOnce("sub"))
					return nil
				}).
				OnReconcile("reconcile", failOnce("reconcile")).
				Daemon("daemon", daemons.Daemon{}, failOnce("daemon")))
		operator.RunUntilQuiet(t)
		slices.Sort(calls)
		want := []string{
			"daemon after 0s", "daemon after 7s", "default after 0s", "default after 7s", "own after 0s", "own after 3s",
			"reconcile after 0s", "reconcile after 0s", "startup after 0s", "startup after 7s", "sub after 0s", "sub after 7s",
		}
		if !slices.Equal(calls, want) {
			t.Errorf("calls = %q, want %q", calls, want)
		}
	})
}

// SET-39: while the watch is down, an attempt waits for the consistency timeout, because the cache does not show the progress of the one before.
func TestWithConsistencyTimeout(t *testing.T) {
	for timeout, options := range map[time.Duration][]kopf.Option{
		5 * time.Second: nil, 30 * time.Second: {kopf.WithConsistencyTimeout(30 * time.Second)},
	} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last time.Time
				var longest time.Duration
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				operator := cluster.Run(t, append(options, kopf.For(&corev1.ConfigMap{}).
					OnCreate("a", func(context.Context, *kopf.Request[configMap]) error {
						if !last.IsZero() {
							longest = max(longest, time.Since(last))
						}
						last = time.Now()
						return kopf.Temporary(errors.New("not yet"), time.Second)
					}))...)
				operator.InjectFaults(kopftest.Fault{Verb: "watch", Resource: "configmaps", Times: -1, Delay: 90 * time.Second})
				<-time.After(20 * time.Minute) // client-go ends watches after five to ten minutes
				operator.Stop(t)
				if longest < timeout || longest > timeout+2*time.Second {
					t.Errorf("the longest time between two attempts was %s, want %s", longest, timeout)
				}
			})
		})
	}
}

func TestWithEvents_LogLines(t *testing.T) {
	for name, logLines := range map[string]bool{"on": true, "off": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithEvents(events.Options{Level: events.Off, LogLines: logLines}),
					kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
						logger := log.FromContext(ctx).WithName("sub").WithValues("hidden", "value")
						logger.Info("Created a disk", "size", 3)
						logger.V(1).Info("A detail")
						logger.Error(errors.New("no tape"), "Failed to archive", "disk", "a")
						req.Sub("sub", func(ctx context.Context, _ *kopf.Request[configMap]) error {
							log.FromContext(ctx).Info("In the sub-handler")
							return nil
						})
						return nil
					}).Timer("tick", daemons.Timer{Interval: time.Hour}, func(ctx context.Context, _ *kopf.Request[configMap]) error {
						log.FromContext(ctx).Info("Tick")
						return nil
					}))
				operator.RunUntilQuiet(t)
				var got []string
				for _, e := range operator.Events() {
					got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.Reason, e.Note))
				}
				slices.Sort(got)
				want := []string{
					"Normal Logging create/sub: In the sub-handler", "Normal Logging create: Created a disk size=3",
					"Normal Logging tick: Tick", "Warning Logging create: Failed to archive disk=a: no tape",
				}
				if name == "off" {
					want = nil
				}
				if !slices.Equal(got, want) {
					t.Errorf("Events = %q, want %q", got, want)
				}
			})
		})
	}
}

// The change has left the queue of the event handler when the pin is stored: the next reconcile writes it.
func TestWriteChanges_FailedPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pod := func() *corev1.Pod {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		}
		cluster := kopftest.Memory(t)
		created := 0
		operator := cluster.Run(t, kopf.For(&corev1.Pod{}).
			OnEvent("event", func(_ context.Context, req *kopf.Request[*corev1.Pod]) error {
				if req.Event != watch.Modified {
					req.Object.Status.Message = "seen"
				}
				return nil
			}, kopf.WriteChanges()).
			OnCreate("create", func(context.Context, *kopf.Request[*corev1.Pod]) error { created++; return nil }).
			OnField("message", "status.message", func(context.Context, *kopf.Request[*corev1.Pod]) error { return nil }))
		operator.RunUntilQuiet(t)
		operator.InjectFaults(kopftest.Fault{Verb: "patch", Resource: "pods", Code: http.StatusInternalServerError})
		cluster.Create(t, pod())
		operator.RunUntilQuiet(t)
		got := pod()
		cluster.Get(t, got)
		if got.Status.Message != "seen" || created != 1 {
			t.Errorf("message = %q after %d creations, want \"seen\" after one", got.Status.Message, created)
		}
	})
}

// An event handler reads a newer state, and removes an item that the state of the event does not have.
func TestWriteChanges_OfNewerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		removed := false
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnEvent("event", func(ctx context.Context, req *kopf.Request[configMap]) error {
			if removed {
				return nil
			}
			removed = true
			kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Finalizers = []string{"example.com/other"} })
			<-time.After(time.Second)
			if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), req.Object); err != nil {
				return err
			}
			req.Object.Finalizers = nil
			return nil
		}, kopf.WriteChanges()))
		operator.RunUntilQuiet(t)
		got := newConfigMap("one")
		cluster.Get(t, got)
		if len(got.Finalizers) > 0 {
			t.Errorf("finalizers = %v, want none", got.Finalizers)
		}
	})
}

// Lines of one handler are not aggregated, and each is posted once, also by a handler that waits for its sub-handlers.
func TestWithEvents_SeveralLogLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithEvents(events.Options{Level: events.Off, LogLines: true}),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
				for _, id := range []string{"one", "two"} {
					req.Sub(id, func(context.Context, *kopf.Request[configMap]) error { return nil })
					if !req.AwaitSubs() {
						return nil
					}
				}
				log.FromContext(ctx).Info("Line", "number", 1)
				log.FromContext(ctx).Info("Line", "number", 2)
				return nil
			}))
		operator.RunUntilQuiet(t)
		var got []string
		for _, e := range operator.Events() {
			got = append(got, e.Note)
		}
		slices.Sort(got)
		if want := []string{"create: Line number=1", "create: Line number=2"}; !slices.Equal(got, want) {
			t.Errorf("Events = %q, want %q", got, want)
		}
	})
}
