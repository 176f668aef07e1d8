package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A callList records the calls of handlers: "<handler> <reason> <name of the object>".
type callList []string

// callLists guards all lists: objects are handled at the same time.
var callLists sync.Mutex

func (c *callList) handler(results ...error) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		callLists.Lock()
		defer callLists.Unlock()
		*c = append(*c, fmt.Sprintf("%s %s %s", req.Handler, req.Reason, req.Object.Name))
		return errors.Join(results...)
	}
}

func (c *callList) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	callLists.Lock()
	defer callLists.Unlock()
	got := slices.Sorted(slices.Values(*c))
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
	*c = nil
}

// copyOf returns what a user gets who exports an object, changes its name and creates it again.
func copyOf(t *testing.T, cluster *kopftest.Cluster, from, to string) configMap {
	t.Helper()
	obj := newConfigMap(from)
	cluster.Get(t, obj)
	meta := metav1.ObjectMeta{Namespace: obj.Namespace, Name: to, Labels: obj.Labels, Annotations: obj.Annotations, Finalizers: obj.Finalizers}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: obj.Data}
}

func TestCopy_IsCreated(t *testing.T) {
	for name, opts := range map[string][]kopf.Option{
		"default prefix": nil,
		"own prefix": {
			kopf.WithProgress(progress.WithHistory(progress.Annotations("op.example.com"), 5)), kopf.WithBaseline(progress.AnnotationBaseline("op.example.com")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var called callList
				operator := cluster.Run(t, append(opts, kopf.For(&corev1.ConfigMap{}).OnCreate("a", called.handler()).OnUpdate("b", called.handler()).OnDelete("c", called.handler()))...)
				operator.RunUntilQuiet(t)
				called.expect(t, "calls for the original", "a create one")

				copied := copyOf(t, cluster, "one", "copy")
				cluster.Create(t, copied)
				operator.RunUntilQuiet(t)
				called.expect(t, "calls for the copy", "a create copy")
				cluster.Get(t, copied)
				stamps := 0
				for key := range copied.Annotations {
					if strings.Contains(key, "/state-of-") {
						stamps++
						if !strings.HasSuffix(key, string(copied.UID)) {
							t.Errorf("annotation %s, want only the copy's own", key)
						}
					}
				}
				if stamps != 1 {
					t.Errorf("got %d stamps, want one: %q", stamps, copied.Annotations)
				}
				if entries, err := progress.History(copied); err != nil || opts != nil && len(entries) != 1 {
					t.Errorf("history = %v (error %v), want the one call for the copy", entries, err)
				}

				kopftest.Edit(t, cluster, newConfigMap("copy"), func(obj configMap) { obj.Data = map[string]string{"size": "2"} })
				operator.RunUntilQuiet(t)
				called.expect(t, "calls for an edit of the copy", "b update copy")
				cluster.Delete(t, newConfigMap("copy"), newConfigMap("one"))
				operator.RunUntilQuiet(t)
				called.expect(t, "calls for the deletions", "c delete copy", "c delete one")
			})
		})
	}
}

func TestCopy_TakenInMidCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var called callList
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
			OnCreate("done", called.handler()).
			OnCreate("waits", called.handler(kopf.Temporary(errors.New("not yet"), time.Hour))))
		<-time.After(time.Second)
		called.expect(t, "calls for the original", "done create one", "waits create one")
		cluster.Create(t, copyOf(t, cluster, "one", "copy"))
		<-time.After(time.Second)
		called.expect(t, "calls for the copy", "done create copy", "waits create copy")
		operator.Stop(t)
	})
}

// An operator that writes no stamps, such as one with Python kopf, has handled the copy: its state counts.
func TestCopy_HandledByAnotherOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var called callList
		kind := kopf.For(&corev1.ConfigMap{}).OnCreate("a", called.handler()).OnUpdate("b", called.handler())
		first := cluster.Run(t, kind)
		first.RunUntilQuiet(t)
		first.Stop(t)
		copied := copyOf(t, cluster, "one", "copy")
		copied.Data = map[string]string{"size": "2"}
		copied.Annotations[progress.DefaultPrefix+"/last-handled-configuration"] = `{"data": {"size": "2"}}` + "\n"
		cluster.Create(t, copied)
		called = nil
		second := cluster.Run(t, kind)
		second.RunUntilQuiet(t)
		called.expect(t, "calls")
	})
}

// A GitOps tool applies a manifest that was exported with the annotations of its object, again and again.
func TestCopy_AppliedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var called callList
		var waits atomic.Bool
		kind := func() *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).OnCreate("a", called.handler()).OnUpdate("b", called.handler()).
				OnCreate("slow", func(context.Context, *kopf.Request[configMap]) error {
					if waits.Load() {
						return kopf.Temporary(errors.New("not yet"), 10*time.Minute)
					}
					return nil
				})
		}
		operator := cluster.Run(t, kind())
		operator.RunUntilQuiet(t)
		exported := copyOf(t, cluster, "one", "copy").Annotations
		called = nil
		waits.Store(true)
		cluster.Create(t, copyOf(t, cluster, "one", "copy"))
		apply := func() {
			kopftest.Edit(t, cluster, newConfigMap("copy"), func(obj configMap) { maps.Copy(obj.Annotations, exported) })
			<-time.After(time.Minute)
		}
		<-time.After(time.Second)
		for range 3 {
			apply() // while the creation is running
		}
		called.expect(t, "calls during the creation", "a create copy")
		waits.Store(false)
		<-time.After(10 * time.Minute)
		for range 3 {
			apply()
		}
		operator.Stop(t)
		apply() // while no operator runs
		operator = cluster.Run(t, kind())
		apply()
		operator.RunUntilQuiet(t)
		called.expect(t, "calls after the creation")

		kopftest.Edit(t, cluster, newConfigMap("copy"), func(obj configMap) { obj.Data = map[string]string{"size": "2"} })
		for range 3 {
			apply()
		}
		operator.RunUntilQuiet(t)
		called.expect(t, "calls for an edit", "b update copy")
	})
}

// An operator that stores nothing on objects leaves the finalizer and the pin of another operator with the same names alone.
func TestTwoOperators_OneOnlyLooks(t *testing.T) {
	looks := func(context.Context, *kopf.Request[configMap]) error { return nil }
	for name, kind := range map[string]*kopf.Resource[configMap]{
		"events":     kopf.For(&corev1.ConfigMap{}).OnEvent("look", looks),
		"reconciles": kopf.For(&corev1.ConfigMap{}).OnReconcile("look", looks),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t)
				var called callList
				owner := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
					OnCreate("a", called.handler()).OnDelete("c", called.handler()).
					OnCreate("waits", func(_ context.Context, req *kopf.Request[configMap]) error {
						if req.Attempt.Number == 0 {
							return kopf.Temporary(errors.New("not yet"), time.Minute)
						}
						return nil
					}))
				looking := cluster.Run(t, kind)
				cluster.Create(t, newConfigMap("one"))
				owner.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"size": "2"} })
				owner.RunUntilQuiet(t)
				cluster.Delete(t, newConfigMap("one"))
				owner.RunUntilQuiet(t)
				called.expect(t, "calls", "a create one", "c delete one")
				if writes := looking.Writes(); len(writes) > 0 {
					t.Errorf("the operator that only looks has written: %v", writes)
				}
			})
		})
	}
}

// An operator that removes a finalizer again and again gives up, and says so.
func TestFinalizer_Contested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var called callList
		owner := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnDelete("c", called.handler()),
			kopf.WithProgress(progress.Annotations("a.example.com")), kopf.WithBaseline(progress.AnnotationBaseline("a.example.com")))
		other := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("a", called.handler()))
		<-time.After(time.Minute)
		called = nil
		if writes := len(other.Writes()); writes > 12 {
			t.Errorf("got %d writes in a minute, want the operators to stop", writes)
		}
		if !slices.ContainsFunc(other.Events(), func(ev kopftest.Event) bool { return ev.Reason == "FinalizerContested" }) {
			t.Errorf("Events = %v, want a warning", other.Events())
		}
		cluster.Delete(t, newConfigMap("one"))
		owner.RunUntilQuiet(t)
		called.expect(t, "calls", "c delete one")
	})
}

// What a resume handler has done belongs to the process: a success that is stored on the object is that of an earlier one.
func TestResume_InEachProcess(t *testing.T) {
	for name, declare := range map[string]func(connect, failing kopf.Handler[configMap]) *kopf.Resource[configMap]{
		"update fails": func(connect, failing kopf.Handler[configMap]) *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).OnResume("connect", connect).OnUpdate("other", failing)
		},
		"resume fails": func(connect, failing kopf.Handler[configMap]) *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).OnResume("connect", connect).OnResume("other", failing)
		},
		"sub-handler": func(connect, failing kopf.Handler[configMap]) *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).OnUpdate("other", failing).OnResume("connect",
				func(_ context.Context, req *kopf.Request[configMap]) error { req.Sub("sub", connect); return nil })
		},
		"update and resume": func(connect, failing kopf.Handler[configMap]) *kopf.Resource[configMap] {
			return kopf.For(&corev1.ConfigMap{}).On("connect", []kopf.Reason{kopf.ReasonUpdate, kopf.ReasonResume}, connect).OnUpdate("other", failing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var called callList
				fails := false
				failing := func(context.Context, *kopf.Request[configMap]) error {
					if fails {
						return kopf.Temporary(errors.New("not yet"), time.Minute)
					}
					return nil
				}
				first := cluster.Run(t, declare(called.handler(), failing))
				first.RunUntilQuiet(t)
				first.Stop(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"size": "2"} })
				fails, called = true, nil
				for process := range 3 {
					operator := cluster.Run(t, declare(called.handler(), failing))
					<-time.After(150 * time.Second)
					if len(called) != 1 {
						t.Errorf("process %d: calls = %q, want one", process, called)
					}
					called = nil
					operator.Stop(t)
				}
			})
		})
	}
}

// A process that continues the creation of an object resumes it afterwards, because its creation handlers have been called by an earlier process.
func TestResume_AfterCreationByEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		var called callList
		fails := true
		start := func() *kopftest.Operator {
			return cluster.Run(t, kopf.For(&corev1.ConfigMap{}).
				On("connect", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, called.handler()).
				OnCreate("other", func(context.Context, *kopf.Request[configMap]) error {
					if fails {
						return kopf.Temporary(errors.New("not yet"), time.Minute)
					}
					return nil
				}))
		}
		first := start()
		cluster.Create(t, newConfigMap("one"))
		<-time.After(time.Second)
		first.Stop(t)
		called.expect(t, "calls in the first process", "connect create one")
		fails = false
		second := start()
		<-time.After(2 * time.Minute)
		second.RunUntilQuiet(t)
		second.Stop(t)
		called.expect(t, "calls in the second process", "connect resume one")
		third := start()
		third.RunUntilQuiet(t)
		called.expect(t, "calls in the third process", "connect resume one")
	})
}

// A handler that calls nothing after a creation in the same process.
func TestResume_NotAfterOwnCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		var called callList
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("a", called.handler()).OnResume("b", called.handler()))
		operator.RunUntilQuiet(t)
		called.expect(t, "calls", "a create one")
	})
}

// No baseline is written if no handler compares states.
func TestBaseline_OnlyIfNeeded(t *testing.T) {
	var called callList
	for name, test := range map[string]struct {
		kind *kopf.Resource[configMap]
		want bool
	}{
		"reconcile and delete": {kopf.For(&corev1.ConfigMap{}).OnReconcile("r", called.handler()).OnDelete("d", called.handler()), false},
		"delete":               {kopf.For(&corev1.ConfigMap{}).OnDelete("d", called.handler()), false},
		"stored in memory":     {kopf.For(&corev1.ConfigMap{}).OnCreate("c", called.handler(), kopf.StoreIn(progress.InMemory())).OnUpdate("u", called.handler(), kopf.StoreIn(progress.InMemory())), false},
		"some in memory":       {kopf.For(&corev1.ConfigMap{}).OnCreate("c", called.handler(), kopf.StoreIn(progress.InMemory())).OnUpdate("u", called.handler()), true},
		"create and delete":    {kopf.For(&corev1.ConfigMap{}).OnCreate("c", called.handler()).OnDelete("d", called.handler()), true},
		"resume":               {kopf.For(&corev1.ConfigMap{}).OnResume("r", called.handler()), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t)
				operator := cluster.Run(t, test.kind)
				cluster.Create(t, newConfigMap("one"))
				operator.RunUntilQuiet(t)
				kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Data = map[string]string{"size": "2"} })
				operator.RunUntilQuiet(t)
				obj := newConfigMap("one")
				cluster.Get(t, obj)
				if got := len(obj.Annotations) > 0; got != test.want {
					t.Errorf("annotations = %q, want some: %t", obj.Annotations, test.want)
				}
				cluster.Delete(t, obj)
				operator.RunUntilQuiet(t)
				if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil || err == nil {
					t.Errorf("the object still exists: %v", err)
				}
			})
		})
	}
	if got := slices.Compact(slices.Sorted(slices.Values(called))); !slices.Contains(got, "u update one") || !slices.Contains(got, "c create one") || !slices.Contains(got, "d delete one") {
		t.Errorf("calls = %q, want creations, updates and deletions", got)
	}
}

// The same for a kind with the status subresource, whose writes are two requests.
func TestCopy_OfAKindWithStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		original := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
		cluster := kopftest.Memory(t, kopftest.Objects(original))
		var called callList
		operator := cluster.Run(t, kopf.For(&appsv1.StatefulSet{}).OnCreate("a", func(_ context.Context, req *kopf.Request[*appsv1.StatefulSet]) error {
			called = append(called, "a "+req.Object.Name)
			req.Object.Status.Replicas = 1
			return nil
		}))
		operator.RunUntilQuiet(t)
		cluster.Get(t, original)
		cluster.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "copy", Annotations: original.Annotations}})
		operator.RunUntilQuiet(t)
		called.expect(t, "calls", "a copy", "a one")
		writes := slices.DeleteFunc(operator.Writes(), func(w kopftest.Write) bool {
			return w.Code == http.StatusConflict // with the request for the status that follows the creation of the copy
		})
		if len(writes) != 4 {
			t.Errorf("writes = %v, want two for each object", writes)
		}
	})
}
