package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// timeline records the calls of handlers with the times since its start.
type timeline struct {
	mu    sync.Mutex
	began time.Time
	calls []string
}

func (l *timeline) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.calls = time.Now(), nil
}

func (l *timeline) add(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, fmt.Sprintf("%s@%s", id, time.Since(l.began).Round(time.Millisecond)))
}

// expect compares the calls since the last call of expect.
func (l *timeline) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.calls, want) {
		t.Errorf("calls = %q, want %q", l.calls, want)
	}
	l.calls = nil
}

// expectOrdered compares the calls since the last call of expect without their times.
func (l *timeline) expectOrdered(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	for i, call := range l.calls {
		l.calls[i], _, _ = strings.Cut(call, "@")
	}
	l.mu.Unlock()
	l.expect(t, want...)
}

// handler returns a handler that returns the errors one after the other, and the last one again and again.
func (l *timeline) handler(id string, errs ...error) kopf.Handler[deployment] {
	n := 0
	return func(context.Context, *kopf.Request[deployment]) error {
		l.add(id)
		n++
		if len(errs) == 0 {
			return nil
		}
		return errs[min(n, len(errs))-1]
	}
}

// relabel changes the object as another client.
func relabel(t *testing.T, cluster *kopftest.Cluster, value string) {
	t.Helper()
	kopftest.Edit(t, cluster, loopingDeployment("a"), func(d deployment) { metav1.SetMetaDataLabel(&d.ObjectMeta, "value", value) })
	synctest.Wait()
}

// changeChild creates or changes a child of the object.
func changeChild(t *testing.T, cluster *kopftest.Cluster, value string) {
	t.Helper()
	owner := loopingDeployment("a")
	cluster.Get(t, owner)
	child := newConfigMap("child")
	child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "a", UID: owner.UID}}
	child.Data = map[string]string{"value": value}
	if err := cluster.Client.Create(t.Context(), child); err != nil {
		kopftest.Edit(t, cluster, newConfigMap("child"), func(c configMap) { c.Data = map[string]string{"value": value} })
	}
	synctest.Wait()
}

// withObject runs an operator, creates the object, and calls the test.
func withObject(t *testing.T, line *timeline, r *kopf.Resource[deployment], test func(t *testing.T, cluster *kopftest.Cluster, operator *kopf.Operator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t)
		var operator *kopf.Operator
		cluster.RunManager(t, func(mgr manager.Manager) error {
			operator = kopf.New(mgr, r)
			return mgr.Add(operator)
		})
		<-time.After(time.Minute)
		line.start()
		cluster.Create(t, loopingDeployment("a"))
		synctest.Wait()
		test(t, cluster, operator)
	})
}

var errNotReady = errors.New("not ready")

func TestOnReconcile_ChangesDoNotUseUpRetries(t *testing.T) {
	var line timeline
	busy := kopf.Temporary(errNotReady, time.Minute)
	r := kopf.For(&appsv1.Deployment{}).OnReconcile("apply", func(_ context.Context, req *kopf.Request[deployment]) error {
		line.add(fmt.Sprint(req.Attempt.Number))
		return busy
	}, kopf.Retries(3))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		for i := range 5 {
			<-time.After(10 * time.Second)
			relabel(t, cluster, fmt.Sprint(i))
		}
		line.expect(t, "0@0s", "0@10s", "0@20s", "0@30s", "0@40s", "0@50s")
		<-time.After(time.Hour)
		line.expect(t, "1@1m50s", "2@2m50s") // the handler has failed permanently
		relabel(t, cluster, "again")
		line.expect(t, "0@1h0m50s")
	})
}

func TestRequeueAfter(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}).
		OnReconcile("apply", func(_ context.Context, req *kopf.Request[deployment]) error {
			line.add("apply")
			if req.Object.Labels["value"] != "done" {
				req.RequeueAfter(time.Hour)
				req.RequeueAfter(15 * time.Second)
				req.RequeueAfter(time.Minute)
				req.RequeueAfter(0)
			}
			return nil
		}, kopf.Interval(10*time.Minute)).
		OnReconcile("fail", func(_ context.Context, req *kopf.Request[deployment]) error {
			if req.Object.Labels["value"] != "" {
				return nil
			}
			line.add("fail")
			req.RequeueAfter(time.Second)
			return kopf.Temporary(errNotReady, 2*time.Second)
		})
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, operator *kopf.Operator) {
		<-time.After(4 * time.Second)
		line.expect(t, "apply@0s", "fail@0s", "fail@2s", "fail@4s")
		relabel(t, cluster, "x")
		<-time.After(32 * time.Second)
		line.expect(t, "apply@4s", "apply@19s", "apply@34s")
		explanation, err := operator.Explain(t.Context(), loopingDeployment("a"))
		if err != nil {
			t.Fatal(err)
		}
		if h := explanation.Handlers[0]; h.State != explain.Waiting || h.Attempts != 0 || h.LastError != "" || h.Due == nil || h.Due.Sub(line.began) != 49*time.Second {
			t.Errorf("explanation %+v, want a wait until 49s without a failure", h)
		}
		relabel(t, cluster, "done")
		<-time.After(21 * time.Minute)
		line.expect(t, "apply@36s", "apply@10m36s", "apply@20m36s")
	})
}

// Other handlers have other ways to be called again.
func TestRequeueAfter_IsOnlyForReconcileHandlers(t *testing.T) {
	requeue := func(_ context.Context, req *kopf.Request[deployment]) error {
		req.RequeueAfter(time.Second)
		return nil
	}
	for _, reason := range []kopf.Reason{kopf.ReasonCreate, kopf.ReasonDelete, kopf.ReasonEvent, kopf.ReasonTimer, kopf.ReasonDaemon} {
		got := kopftest.Invoke(t, requeue, loopingDeployment("a"), kopftest.WithReason(reason))
		if err := got.Outcome.Err; !got.Outcome.Final || err == nil || !strings.Contains(err.Error(), "RequeueAfter is only for OnReconcile handlers") {
			t.Errorf("%s: outcome %+v, want a permanent error", reason, got.Outcome)
		}
	}
	got := kopftest.Invoke(t, requeue, loopingDeployment("a"), kopftest.WithReason(kopf.ReasonReconcile))
	if !got.Outcome.Success || got.RequeueAfter != time.Second {
		t.Errorf("outcome %+v with RequeueAfter %s, want a success with 1s", got.Outcome, got.RequeueAfter)
	}
}

// The steps are declared in another order.
func TestAfter_OrdersReconcileHandlers(t *testing.T) {
	var line timeline
	step := func(id string) kopf.Handler[deployment] {
		return func(_ context.Context, req *kopf.Request[deployment]) error {
			line.add(id)
			switch req.Object.Labels["value"] {
			case id + "-is-busy":
				return kopf.Temporary(errNotReady, time.Minute)
			case id + "-fails":
				return kopf.Permanent(errNotReady)
			case id + "-is-not-interested":
				req.RequeueAfter(time.Minute)
			}
			return nil
		}
	}
	r := kopf.For(&appsv1.Deployment{}).
		OnReconcile("third", step("third"), kopf.After("second"), kopf.Interval(10*time.Second)).
		OnReconcile("second", step("second"), kopf.After("first", "skipped")).
		OnReconcile("first", step("first")).
		OnReconcile("skipped", step("skipped"), kopf.Label("skipped")).
		OnReconcile("other", step("other"))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, operator *kopf.Operator) {
		line.expect(t, "first@0s", "second@0s", "third@0s", "other@0s")
		<-time.After(time.Second)
		relabel(t, cluster, "second-is-busy")
		line.expect(t, "first@1s", "second@1s", "other@1s")
		<-time.After(59 * time.Second)
		line.expect(t) // the interval of the third step has passed
		explanation, err := operator.Explain(t.Context(), loopingDeployment("a"))
		if err != nil {
			t.Fatal(err)
		}
		if h := explanation.Handlers[0]; h.State != explain.Blocked || h.Why != `it comes after "second"` {
			t.Errorf("explanation %+v, want blocked", h)
		}
		<-time.After(time.Second)
		line.expect(t, "second@1m1s")
		relabel(t, cluster, "")
		line.expect(t, "first@1m1s", "second@1m1s", "third@1m1s", "other@1m1s")
		relabel(t, cluster, "first-fails")
		line.expect(t, "first@1m1s", "other@1m1s")
		<-time.After(time.Hour)
		line.expect(t)
		relabel(t, cluster, "second-is-not-interested") // a handler that asks for another call has succeeded
		line.expect(t, "first@1h1m1s", "second@1h1m1s", "third@1h1m1s", "other@1h1m1s")
	})
}

// A step that has failed calls the later ones when it succeeds, without another change.
func TestAfter_ContinuesWhenAReconcileHandlerSucceeds(t *testing.T) {
	var line timeline
	busy := kopf.Temporary(errNotReady, time.Minute)
	r := kopf.For(&appsv1.Deployment{}).
		OnReconcile("first", line.handler("first", busy, busy, nil)).
		OnReconcile("second", line.handler("second", busy, nil), kopf.After("first")).
		OnReconcile("third", line.handler("third"), kopf.After("first", "second"))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(time.Hour)
		line.expect(t, "first@0s", "first@1m0s", "first@2m0s", "second@2m0s", "second@3m0s", "third@3m0s")
	})
}

func TestOnReconcile_UnderDeletion(t *testing.T) {
	var line timeline
	record := func(id string) kopf.Handler[deployment] { return line.handler(id) }
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		line.add("reconciler")
		return reconcile.Result{}, nil
	})
	unwrapped := kopf.FromReconciler[deployment](reconciler)
	r := kopf.For(&appsv1.Deployment{}).
		Use(func(next kopf.Handler[deployment]) kopf.Handler[deployment] {
			return func(ctx context.Context, req *kopf.Request[deployment]) error { return next(ctx, req) }
		}).
		OnReconcile("plain", record("plain")).
		OnReconcile("asked", record("asked"), kopf.EvenIfDeleted()).
		OnReconcile("after", record("after"), kopf.EvenIfDeleted(), kopf.After("plain")).
		OnReconcile("wrapped", kopf.FromReconciler[deployment](reconciler)).
		OnReconcile("hidden", func(ctx context.Context, req *kopf.Request[deployment]) error { return unwrapped(ctx, req) })
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, operator *kopf.Operator) {
		line.expect(t, "plain@0s", "asked@0s", "after@0s", "reconciler@0s")
		explanation, err := operator.Explain(t.Context(), loopingDeployment("a"))
		if err != nil {
			t.Fatal(err)
		}
		if h := explanation.Handlers[4]; h.State != explain.Failed || !strings.Contains(h.LastError, "EvenIfDeleted") && h.LastError != "" {
			t.Errorf("explanation %+v, want a permanent failure", h)
		}
		kopftest.Edit(t, cluster, loopingDeployment("a"), func(d deployment) { d.Finalizers = []string{"example.com/test"} })
		line.expect(t, "plain@0s", "asked@0s", "after@0s", "reconciler@0s")
		<-time.After(time.Second)
		cluster.Delete(t, loopingDeployment("a"))
		line.expect(t, "asked@1s", "after@1s", "reconciler@1s")
		kopftest.Edit(t, cluster, loopingDeployment("a"), func(d deployment) { d.Finalizers = nil })
		line.expect(t, "reconciler@1s") // as controller-runtime calls reconcilers
	})
}

// With OnDelete, a handler that ensures a state must not restore what the delete handler has removed.
func TestOnReconcile_IsNotCalledAfterTheDeleteHandler(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}).OnReconcile("ensure", line.handler("ensure")).OnDelete("drop", line.handler("drop"))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(time.Second)
		cluster.Delete(t, loopingDeployment("a"))
		line.expect(t, "ensure@0s", "drop@1s")
	})
}

// A handler that fails and writes the status in each attempt is called with its backoff, and not by its own writes.
func TestOnReconcile_OwnWritesDoNotCallAFailingHandler(t *testing.T) {
	for name, write := range map[string]func(context.Context, *kopf.Request[deployment]) error{
		"with Request.Object": func(_ context.Context, req *kopf.Request[deployment]) error {
			req.Object.Status.ObservedGeneration++
			return nil
		},
		"with Flush": func(ctx context.Context, req *kopf.Request[deployment]) error {
			req.Object.Status.ObservedGeneration++
			return req.Flush(ctx)
		},
		"with Request.Client": func(ctx context.Context, req *kopf.Request[deployment]) error {
			obj := req.Object.DeepCopy()
			obj.Status.ObservedGeneration++
			return req.Client.Status().Update(ctx, obj)
		},
		"both parts with Request.Object": func(_ context.Context, req *kopf.Request[deployment]) error {
			req.Object.Status.ObservedGeneration++
			metav1.SetMetaDataLabel(&req.Object.ObjectMeta, "generation", fmt.Sprint(req.Object.Status.ObservedGeneration))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var line timeline
			r := kopf.For(&appsv1.Deployment{}).OnReconcile("apply", func(ctx context.Context, req *kopf.Request[deployment]) error {
				line.add("apply")
				if err := write(ctx, req); err != nil {
					t.Error(err)
				}
				return errNotReady
			}, kopf.Backoff(10*time.Minute))
			withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
				<-time.After(time.Minute)
				line.expect(t, "apply@0s")
				relabel(t, cluster, "edited")
				line.expect(t, "apply@1m0s")
				<-time.After(10 * time.Minute)
				line.expect(t, "apply@11m0s")
				if n := loopingObjects(t); n != 0 {
					t.Errorf("kopf_held_objects = %v, want 0", n)
				}
			})
		})
	}
}

// The writes of a reconciler with a client of its own are like those of other clients. As in controller-runtime, they call it at once, but not without an end.
func TestFromReconciler_FailuresThatWriteAreGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line timeline
		cluster := kopftest.Memory(t)
		operator := cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.For(&appsv1.Deployment{}).OnReconcile("main",
				kopf.FromReconciler[deployment](reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					line.add("main")
					obj := loopingDeployment("a")
					if err := mgr.GetClient().Get(ctx, req.NamespacedName, obj); err != nil {
						return reconcile.Result{}, err
					}
					obj.Status.ObservedGeneration++
					return reconcile.Result{}, errors.Join(errNotReady, mgr.GetClient().Status().Update(ctx, obj))
				}))))
		})
		<-time.After(time.Minute)
		line.start()
		cluster.Create(t, loopingDeployment("a"))
		<-time.After(time.Minute)
		if n := len(line.calls); n < 11 || n > 25 {
			t.Errorf("%d calls in the first minute, want 11 to 25", n)
		}
		line.start()
		<-time.After(10 * time.Minute)
		if n := len(line.calls); n < 5 || n > 20 {
			t.Errorf("%d calls in the next 10 minutes, want one or two a minute", n)
		}
		events := slices.DeleteFunc(operator.Events(), func(event kopftest.Event) bool { return event.Reason != "HandlerLoop" })
		if len(events) != 1 || !strings.Contains(events[0].Note, `"main" fails, and the object changes after each attempt`) {
			t.Errorf("Events %v, want one about the loop", events)
		}
	})
}

// waitForChild returns a handler that waits for the child.
func waitForChild(line *timeline) kopf.Handler[deployment] {
	return func(ctx context.Context, req *kopf.Request[deployment]) error {
		line.add(fmt.Sprint(req.Attempt.Number))
		child := newConfigMap("child")
		if err := req.Client.Get(ctx, client.ObjectKeyFromObject(child), child); err != nil || child.Data["value"] != "ready" {
			return kopf.Temporary(errNotReady, time.Hour)
		}
		return nil
	}
}

func TestRetryOnRelatedChange(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}).
		OnCreate("announce", waitForChild(&line), kopf.RetryOnRelatedChange(), kopf.Retries(2)).
		OnCreate("other", func(context.Context, *kopf.Request[deployment]) error {
			line.add("other")
			return kopf.Temporary(errNotReady, 3*time.Hour)
		}).
		Owns(&corev1.ConfigMap{})
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		line.expect(t, "0@0s", "other@0s")
		for i := range 5 {
			<-time.After(time.Minute)
			changeChild(t, cluster, fmt.Sprint(i))
		}
		line.expect(t, "0@1m0s", "0@2m0s", "0@3m0s", "0@4m0s", "0@5m0s")
		relabel(t, cluster, "edited") // the edit of the object belongs to the next cycle
		line.expect(t)
		changeChild(t, cluster, "ready")
		line.expect(t, "0@5m0s")
		changeChild(t, cluster, "again")
		line.expect(t) // it has succeeded
	})
}

func TestRetryOnRelatedChange_DuringTheAttempt(t *testing.T) {
	var line timeline
	slow := waitForChild(&line)
	r := kopf.For(&appsv1.Deployment{}).
		OnCreate("announce", func(ctx context.Context, req *kopf.Request[deployment]) error {
			err := slow(ctx, req)
			<-time.After(time.Minute)
			return err
		}, kopf.RetryOnRelatedChange()).
		OnReconcile("apply", line.handler("apply")).
		Owns(&corev1.ConfigMap{})
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(30 * time.Second)
		changeChild(t, cluster, "ready")
		<-time.After(10 * time.Minute)
		line.expect(t, "0@0s", "apply@1m0s", "0@1m0s", "apply@2m0s")
	})
}

func TestRetryOnRelatedChange_CallsSubHandlers(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
		OnCreate("announce", func(_ context.Context, req *kopf.Request[deployment]) error {
			req.Sub("a", waitForChild(&line), kopf.Retries(2))
			req.Sub("b", func(context.Context, *kopf.Request[deployment]) error { return nil })
			return nil
		}, kopf.RetryOnRelatedChange()).
		Owns(&corev1.ConfigMap{})
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		for i := range 3 {
			<-time.After(time.Minute)
			changeChild(t, cluster, fmt.Sprint(i))
		}
		line.expect(t, "0@0s", "0@1m0s", "0@2m0s", "0@3m0s")
		changeChild(t, cluster, "ready")
		<-time.After(2 * time.Hour)
		line.expect(t, "0@3m0s")
	})
}

func TestRetryOnRelatedChange_OfATrackedObject(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}).
		OnCreate("announce", func(ctx context.Context, req *kopf.Request[deployment]) error {
			line.add("announce")
			child := newConfigMap("child")
			if err := req.Track(ctx, child); err != nil || child.Data["value"] != "ready" {
				return kopf.Temporary(errNotReady, time.Hour)
			}
			return nil
		}, kopf.RetryOnRelatedChange()).
		OnReconcile("apply", line.handler("apply"))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(time.Minute)
		line.expectOrdered(t, "announce", "apply") // the first call of Track starts a watch, which can take 100 ms
		changeChild(t, cluster, "created")
		line.expect(t, "announce@1m0s", "apply@1m0s")
		changeChild(t, cluster, "ready")
		line.expect(t, "announce@1m0s", "apply@1m0s")
		changeChild(t, cluster, "ignored") // the handler has finished and tracks nothing
		line.expect(t)
	})
}

// Without the option, the delay is a minimum.
func TestRelatedChange_DoesNotShortenTheDelayOfACauseHandler(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}).
		OnCreate("announce", waitForChild(&line)).
		OnReconcile("apply", line.handler("apply")).
		Owns(&corev1.ConfigMap{})
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(time.Minute)
		changeChild(t, cluster, "ready")
		<-time.After(time.Hour)
		line.expect(t, "0@0s", "apply@0s", "apply@1m0s", "1@1h0m0s")
	})
}

// An event that the predicates reject calls no handler, also if the engine reconciles the object for another reason.
func TestOnReconcile_RejectedEventsAreNoChanges(t *testing.T) {
	var line timeline
	r := kopf.For(&appsv1.Deployment{}, kopf.WithPredicates(predicate.GenerationChangedPredicate{})).
		OnReconcile("first", line.handler("first", kopf.Temporary(errNotReady, time.Minute), nil)).
		OnReconcile("second", line.handler("second"))
	withObject(t, &line, r, func(t *testing.T, cluster *kopftest.Cluster, _ *kopf.Operator) {
		<-time.After(time.Second)
		relabel(t, cluster, "rejected")
		<-time.After(time.Hour)
		line.expect(t, "first@0s", "second@0s", "first@1m0s")
		kopftest.Edit(t, cluster, loopingDeployment("a"), func(d deployment) { d.Spec.MinReadySeconds++ })
		line.expect(t, "first@1h0m1s", "second@1h0m1s")
	})
}

// As in controller-runtime, each resync calls the reconcile handlers.
func TestOnReconcile_Resync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line timeline
		cluster := kopftest.Memory(t, kopftest.Objects(loopingDeployment("a")))
		cluster.RunManager(t, func(mgr manager.Manager) error {
			return kopf.SetupWithManager(mgr, kopf.For(&appsv1.Deployment{}).OnReconcile("apply", line.handler("apply", nil, errNotReady), kopf.Backoff(24*time.Hour)))
		}, func(options *manager.Options) { options.Cache.SyncPeriod = new(time.Hour) })
		<-time.After(time.Minute)
		line.start()
		<-time.After(10 * time.Hour)
		if n := len(line.calls); n < 8 || n > 12 {
			t.Errorf("%d calls in 10 hours, want one for each resync: %q", n, line.calls)
		}
	})
}
