package reconcilers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// A reaction is what a reconciler does in one call. obj is the object of the call.
type reaction func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error)

var errScripted = errors.New("scripted")

func succeed(context.Context, *scripted, deployment) (ctrl.Result, error) { return ctrl.Result{}, nil }

func fail(context.Context, *scripted, deployment) (ctrl.Result, error) {
	return ctrl.Result{}, errScripted
}

func failForGood(context.Context, *scripted, deployment) (ctrl.Result, error) {
	return ctrl.Result{}, reconcile.TerminalError(errScripted)
}

func requeue(context.Context, *scripted, deployment) (ctrl.Result, error) {
	return ctrl.Result{Requeue: true}, nil //nolint:staticcheck // deprecated, but existing reconcilers set it
}

func after(delay time.Duration) reaction {
	return func(context.Context, *scripted, deployment) (ctrl.Result, error) {
		return ctrl.Result{RequeueAfter: delay}, nil
	}
}

func withPriority(priority int, then reaction) reaction {
	return func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error) {
		result, err := then(ctx, r, obj)
		result.Priority = &priority
		return result, err
	}
}

// slowly keeps the worker busy.
func slowly(took time.Duration, then reaction) reaction {
	return func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error) {
		<-time.After(took)
		return then(ctx, r, obj)
	}
}

// deliver waits until the caches contain the last write: otherwise, the number of calls at the same time would depend on the scheduler.
func deliver() { <-time.After(time.Millisecond) }

// writingStatus writes a new status with the client of the reconciler.
func writingStatus(then reaction) reaction {
	return func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error) {
		obj.Status.ObservedGeneration++
		if err := r.Status().Update(ctx, obj); err != nil {
			return ctrl.Result{}, err
		}
		deliver()
		return then(ctx, r, obj)
	}
}

// creatingChild creates or changes a child.
func creatingChild(then reaction) reaction {
	return func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error) {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: obj.Namespace, Name: obj.Name + "-child"}}
		if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
			child.Data = map[string]string{"generation": fmt.Sprint(obj.Generation)}
			return controllerutil.SetControllerReference(obj, child, r.Scheme())
		}); err != nil {
			return ctrl.Result{}, err
		}
		deliver()
		return then(ctx, r, obj)
	}
}

// withFinalizer adds the finalizer of the reconciler, and removes it from objects that are being deleted.
func withFinalizer(then reaction) reaction {
	return func(ctx context.Context, r *scripted, obj deployment) (ctrl.Result, error) {
		if changed := controllerutil.AddFinalizer(obj, "example.com/scripted"); obj.DeletionTimestamp == nil && changed {
			defer deliver()
			return ctrl.Result{}, r.Update(ctx, obj)
		}
		result, err := then(ctx, r, obj)
		if err == nil && obj.DeletionTimestamp != nil && controllerutil.RemoveFinalizer(obj, "example.com/scripted") {
			err = r.Update(ctx, obj)
			deliver()
		}
		return result, err
	}
}

// scripted is a reconciler that reacts to its calls by a script for each object. The last reaction of a script is repeated.
type scripted struct {
	client.Client
	scripts map[string][]reaction

	mu     sync.Mutex
	began  time.Time
	counts map[string]int
	calls  []string // with the seconds since the beginning
}

func (r *scripted) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	obj, name := newDeployment(req.Name), req.Name
	if err := r.Get(ctx, req.NamespacedName, obj); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
		name += gone
	}
	return r.next(name)(ctx, r, obj)
}

// gone marks the scripts and the calls for objects that no longer exist.
const gone = " (gone)"

// next records a call and returns the reaction to it.
func (r *scripted) next(name string) reaction {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprintf("%11.6f %s", time.Since(r.began).Seconds(), name))
	script := r.scripts[name]
	if len(script) == 0 {
		return succeed
	}
	r.counts[name]++
	return script[min(r.counts[name], len(script))-1]
}

// changeAt is a change by another client at a time since the beginning.
type changeAt struct {
	at     time.Duration
	change func(t *testing.T, cluster *kopftest.Cluster)
}

func createAt(at time.Duration, name string) changeAt {
	return changeAt{at, func(t *testing.T, cluster *kopftest.Cluster) { cluster.Create(t, newDeployment(name)) }}
}

func editAt(at time.Duration, name string) changeAt {
	return changeAt{at, func(t *testing.T, cluster *kopftest.Cluster) {
		if cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(newDeployment(name)), newDeployment(name)) == nil {
			kopftest.Edit(t, cluster, newDeployment(name), func(d deployment) { d.Spec.MinReadySeconds++ })
		}
	}}
}

func editStatusAt(at time.Duration, name string) changeAt {
	return changeAt{at, func(t *testing.T, cluster *kopftest.Cluster) {
		if cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(newDeployment(name)), newDeployment(name)) == nil {
			kopftest.Edit(t, cluster, newDeployment(name), func(d deployment) { d.Status.ReadyReplicas++ })
		}
	}}
}

func editChildAt(at time.Duration, name string) changeAt {
	return changeAt{at, func(t *testing.T, cluster *kopftest.Cluster) {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-child"}}
		if cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(child), child) == nil {
			kopftest.Edit(t, cluster, child, func(c *corev1.ConfigMap) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, "at", at.String()) })
		}
	}}
}

func deleteAt(at time.Duration, name string) changeAt {
	return changeAt{at, func(t *testing.T, cluster *kopftest.Cluster) {
		_ = client.IgnoreNotFound(cluster.Client.Delete(t.Context(), newDeployment(name)))
	}}
}

type deployment = *appsv1.Deployment

func newDeployment(name string) deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
		}},
	}
}

// reconcilerCase compares the calls of one reconciler.
type reconcilerCase struct {
	scripts map[string][]reaction
	changes []changeAt
	until   time.Duration // default: two hours

	predicates []predicate.Predicate
	options    func() controller.Options // optional
	unordered  bool                      // the order of calls at the same time does not matter
}

// run returns the calls of the reconciler after setup has added it to a manager.
func (c reconcilerCase) run(t *testing.T, setup func(manager.Manager, *scripted) error) (calls []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &scripted{scripts: c.scripts, counts: map[string]int{}}
		cluster := kopftest.Memory(t)
		cluster.RunManager(t, func(mgr manager.Manager) error {
			r.Client = mgr.GetClient()
			return setup(mgr, r)
		})
		<-time.After(time.Minute) // the start polls the caches
		r.began = time.Now()
		for _, change := range c.changes {
			<-time.After(time.Until(r.began.Add(change.at)))
			synctest.Wait()
			change.change(t, cluster)
		}
		<-time.After(time.Until(r.began.Add(c.until)))
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		calls = slices.Clone(r.calls)
	})
	return calls
}

// check compares the calls by the builder of controller-runtime with those by an operator.
func (c reconcilerCase) check(t *testing.T) {
	t.Helper()
	if c.options == nil {
		c.options = func() controller.Options { return controller.Options{MaxConcurrentReconciles: 4} }
	}
	if c.until == 0 {
		c.until = 2 * time.Hour
	}
	built := c.run(t, func(mgr manager.Manager, r *scripted) error {
		return builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}, builder.WithPredicates(c.predicates...)).Owns(&corev1.ConfigMap{}).
			WithOptions(c.options()).Complete(r)
	})
	wrapped := c.run(t, func(mgr manager.Manager, r *scripted) error {
		return kopf.SetupWithManager(mgr, kopf.For(&appsv1.Deployment{}, kopf.WithPredicates(c.predicates...), kopf.WithControllerOptions(c.options())).
			OnReconcile("main", kopf.FromReconciler[deployment](r)).
			Owns(&corev1.ConfigMap{}))
	})
	if c.unordered {
		slices.Sort(built)
		slices.Sort(wrapped)
	}
	if difference := cmp.Diff(built, wrapped); difference != "" {
		t.Errorf("calls by the builder (-) and by FromReconciler (+):\n%s", difference)
	}
	if len(built) == 0 {
		t.Error("the reconciler was not called")
	}
}

func TestFromReconciler_IsCalledAsByTheBuilder(t *testing.T) {
	one := func(script ...reaction) map[string][]reaction { return map[string][]reaction{"a": script} }
	for name, c := range map[string]reconcilerCase{
		"edits": {
			scripts: one(succeed),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a"), editStatusAt(2*time.Second, "a"), editAt(time.Hour, "a")},
		},
		"errors": {
			scripts: one(fail),
			changes: []changeAt{createAt(0, "a")},
		},
		"errors and edits": {
			scripts: one(fail),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a"), editAt(time.Minute, "a"), editStatusAt(61*time.Second, "a")},
		},
		"errors, then a success after an edit": {
			scripts: one(fail, fail, fail, fail, fail, fail, fail, fail, succeed, fail),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a"), editAt(time.Minute, "a")},
		},
		"errors and changes of a child": {
			scripts: one(creatingChild(fail)),
			changes: []changeAt{createAt(0, "a"), editChildAt(time.Second, "a"), editChildAt(time.Minute, "a"), editAt(2*time.Minute, "a")},
		},
		"errors and a deletion": {
			scripts: one(withFinalizer(fail)),
			changes: []changeAt{createAt(0, "a"), deleteAt(110*time.Second, "a")},
		},
		"a deletion that succeeds later": {
			scripts: one(withFinalizer(succeed), withFinalizer(succeed), withFinalizer(fail), withFinalizer(fail), withFinalizer(succeed)),
			changes: []changeAt{createAt(0, "a"), deleteAt(time.Minute, "a")},
		},
		"a terminal error": {
			scripts: one(failForGood, failForGood, fail, fail, failForGood, fail, succeed),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a"), editAt(time.Minute, "a"), editAt(time.Hour, "a")},
		},
		"RequeueAfter": {
			scripts: one(after(10 * time.Second)),
			changes: []changeAt{createAt(0, "a")},
		},
		"RequeueAfter and edits": {
			scripts: one(after(time.Minute), after(time.Hour), after(time.Second), after(2*time.Minute)),
			changes: []changeAt{createAt(0, "a"), editAt(10*time.Second, "a"), editAt(20*time.Second, "a"), editChildAt(25*time.Second, "a"), editAt(time.Minute, "a")},
		},
		"RequeueAfter is dropped by a success": {
			scripts: one(after(time.Minute), succeed),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a")},
		},
		"RequeueAfter and errors": {
			scripts: one(after(time.Minute), fail, fail, after(10*time.Second), fail, succeed),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a")},
		},
		"Requeue": {
			scripts: one(requeue, requeue, requeue, requeue, fail, requeue, succeed, requeue),
			changes: []changeAt{createAt(0, "a"), editAt(time.Second, "a"), editAt(2*time.Second, "a")},
		},
		"changes during a call": {
			scripts: one(slowly(time.Second, fail), slowly(time.Second, after(time.Minute)), slowly(time.Second, succeed)),
			changes: []changeAt{
				createAt(0, "a"), editAt(500*time.Millisecond, "a"), editAt(1100*time.Millisecond, "a"), editStatusAt(1200*time.Millisecond, "a"),
			},
		},
		"writes by the reconciler": {
			scripts: one(writingStatus(fail), writingStatus(fail), creatingChild(fail), writingStatus(after(time.Minute)), succeed),
			changes: []changeAt{createAt(0, "a"), editAt(time.Hour, "a")},
		},
		"errors after the deletion": {
			scripts: map[string][]reaction{"a": {fail}, "a" + gone: {fail, after(time.Minute), after(time.Hour), fail, requeue, failForGood, fail}},
			changes: []changeAt{createAt(0, "a"), deleteAt(time.Minute, "a")},
		},
		"a re-created object, with errors after the deletion": { // the queue forgets the errors of an earlier object only after a success
			scripts: map[string][]reaction{"a": {fail, fail, succeed, fail}, "a" + gone: {fail, fail, succeed, fail}},
			changes: []changeAt{createAt(0, "a"), deleteAt(time.Minute, "a"), createAt(2*time.Minute, "a"), deleteAt(time.Hour, "a")},
		},
		"predicates": {
			scripts: one(after(time.Hour), fail, fail, succeed),
			changes: []changeAt{
				createAt(0, "a"), editStatusAt(time.Second, "a"), editAt(time.Minute, "a"), editStatusAt(time.Minute+7*time.Millisecond, "a"),
				editStatusAt(2*time.Minute, "a"), editAt(3*time.Minute, "a"), deleteAt(90*time.Minute, "a"),
			},
			predicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		},
		"predicates that reject all events of an object": {
			scripts: map[string][]reaction{"a": {succeed}, "b": {succeed}},
			changes: []changeAt{
				createAt(0, "a"), createAt(0, "b"), editAt(time.Second, "a"), editAt(time.Second, "b"), deleteAt(time.Minute, "a"), deleteAt(2*time.Minute, "b"),
			},
			predicates: []predicate.Predicate{predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetName() == "b" })},
		},
		"the rate limiter of the controller": {
			scripts: one(fail, fail, fail, failForGood, fail, requeue, after(time.Second), fail, fail, succeed, fail),
			changes: []changeAt{createAt(0, "a"), editAt(500*time.Second, "a"), editAt(600*time.Second, "a"), editAt(time.Hour, "a"), deleteAt(90*time.Minute, "a")},
			options: func() controller.Options {
				return controller.Options{RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Second, time.Hour)}
			},
		},
		"a re-created object": {
			scripts: one(withFinalizer(after(time.Hour))),
			changes: []changeAt{createAt(0, "a"), deleteAt(time.Minute, "a"), createAt(2*time.Minute, "a")},
		},
		"priorities": {
			scripts: map[string][]reaction{
				"busy": {slowly(time.Second, succeed)},
				"none": {after(10*time.Second + 100*time.Millisecond), succeed},
				"low":  {withPriority(-50, after(10*time.Second+200*time.Millisecond)), succeed},
				"high": {withPriority(50, after(10*time.Second+300*time.Millisecond)), succeed},
				"fail": {fail, fail, fail, fail, fail, fail, fail, fail, fail, fail, fail, fail, succeed},
				"edit": {succeed},
			},
			changes: []changeAt{
				createAt(0, "none"), createAt(0, "low"), createAt(0, "high"), createAt(0, "fail"), createAt(0, "edit"),
				createAt(10*time.Second, "busy"), editAt(10*time.Second+400*time.Millisecond, "edit"),
			},
			options: oneWorker,
		},
		"the priority of an error": {
			scripts: map[string][]reaction{
				"busy": {slowly(time.Second, succeed)},
				"low":  {withPriority(-50, fail)},
				"edit": {succeed},
			},
			changes: []changeAt{createAt(0, "low"), createAt(0, "edit"), createAt(time.Second, "busy"), editAt(1900*time.Millisecond, "edit")},
			options: oneWorker,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.check(t)
		})
	}
}

func oneWorker() controller.Options { return controller.Options{MaxConcurrentReconciles: 1} }

// The calls agree also for random scripts and changes.
func TestFromReconciler_IsCalledAsByTheBuilder_AtRandom(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 2))
			c := reconcilerCase{scripts: map[string][]reaction{}, unordered: true}
			for _, name := range []string{"a", "b", "c"} {
				var script []reaction
				for range 3 + random.IntN(20) {
					react := []reaction{succeed, fail, fail, fail, failForGood, requeue, after(time.Duration(1+random.IntN(100_000)) * time.Millisecond)}[random.IntN(7)]
					switch random.IntN(6) {
					case 0:
						react = writingStatus(react)
					case 1:
						react = slowly(time.Duration(random.IntN(3000))*time.Millisecond, react)
					case 2, 3:
						react = creatingChild(react)
					}
					script = append(script, withFinalizer(react))
				}
				c.scripts[name] = append(script, withFinalizer(succeed))
				c.scripts[name+gone] = []reaction{fail, succeed, after(time.Second), succeed}[random.IntN(4):]
				c.changes = append(c.changes, createAt(0, name))
			}
			at := time.Duration(0)
			for range 20 {
				at += time.Duration(random.IntN(120_000_000)) * time.Microsecond // never at the time of another call
				change := []func(time.Duration, string) changeAt{editAt, editAt, editStatusAt, editChildAt, editChildAt, editChildAt}[random.IntN(6)]
				c.changes = append(c.changes, change(at, []string{"a", "b", "c"}[random.IntN(3)]))
			}
			for _, name := range []string{"a", "b", "c"} {
				at += time.Duration(random.IntN(300_000_000)) * time.Microsecond
				c.changes = append(c.changes, deleteAt(at, name))
			}
			c.check(t)
		})
	}
}
