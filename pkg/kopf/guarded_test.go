package kopf_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// faults are the ways in which a function of a user can fault.
var faults = map[string]struct {
	do   func()
	text string // in the error
}{
	"panic":  {func() { panic("oh") }, "oh"},
	"goexit": {runtime.Goexit, "runtime.Goexit was called"},
}

// A faultyFunction calls a function of the user that faults for the object "bad".
type faultyFunction struct {
	*testing.T
	cluster *kopftest.Cluster
	fault   func()
	handled *texts
}

// forBad faults for the object "bad".
func (f *faultyFunction) forBad(obj client.Object) {
	if obj.GetName() == "bad" {
		f.fault()
	}
}

// once returns a function that faults in its first call.
func (f *faultyFunction) once() func() {
	calls := 0
	return func() {
		if calls++; calls == 1 {
			f.fault()
		}
	}
}

func (f *faultyFunction) handle(_ context.Context, req *kopf.Request[configMap]) error {
	f.forBad(req.Object)
	return nil
}

// resource returns a resource with one worker, so that its loss would stop all handlers.
func (f *faultyFunction) resource(opts ...kopf.ResourceOption) *kopf.Resource[configMap] {
	return kopf.For(&corev1.ConfigMap{}, append(opts, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1}))...).OnCreate("good", f.handled.handler("good"))
}

type faultyPredicate struct {
	predicate.Funcs
	*faultyFunction
}

func (p faultyPredicate) accept(obj client.Object) bool { p.forBad(obj); return true }

type store interface{ progress.Store } // embedded, because the interface has a method of the same name

type faultyStore struct {
	store
	*faultyFunction
}

func (s faultyStore) Fetch(obj client.Object, id string) (*progress.Record, error) {
	s.forBad(obj)
	return s.store.Fetch(obj, id)
}

type faultyBaseline struct {
	progress.Baseline
	*faultyFunction
}

func (s faultyBaseline) Fetch(obj client.Object) []byte {
	s.forBad(obj)
	return s.Baseline.Fetch(obj)
}

// faultyRemote stores nothing.
type faultyRemote struct{ *faultyFunction }

func (r faultyRemote) Load(_ context.Context, obj client.Object) (progress.Snapshot, error) {
	r.forBad(obj)
	return progress.Snapshot{}, nil
}

func (faultyRemote) Save(context.Context, client.Object, progress.Snapshot) (string, error) {
	return "1", nil
}

type faultySchedule struct{ fault func() }

func (s faultySchedule) Next(from time.Time) time.Time { s.fault(); return from.Add(time.Hour) }

// TestGuard calls each kind of function that users can pass to the operator. The function panics or calls runtime.Goexit. The operator must keep running and
// handle the other objects, and the log must name the function and have the stack. Package webhooks tests admission handlers.
func TestGuard(t *testing.T) {
	type options = []kopf.Option
	for _, test := range []struct {
		name    string
		declare func(f *faultyFunction) options
		logged  []string // in one line of the log, beside the text of the fault
		all     bool     // the handlers of the object "bad" are called as well
	}{
		{name: "OnCreate", declare: func(f *faultyFunction) options { return options{f.resource().OnCreate("fn", f.handle)} }, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "Sub", declare: func(f *faultyFunction) options {
			return options{f.resource().OnCreate("fn", func(_ context.Context, req *kopf.Request[configMap]) error { req.Sub("sub", f.handle); return nil })}
		}, logged: []string{"Handler failed", `"handler"="fn/sub"`}, all: true},
		{name: "OnReconcile", declare: func(f *faultyFunction) options { return options{f.resource().OnReconcile("fn", f.handle)} }, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "OnEvent", declare: func(f *faultyFunction) options { return options{f.resource().OnEvent("fn", f.handle)} }, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "OnEventAbout", declare: func(f *faultyFunction) options {
			return options{f.resource().OnEventAbout("fn", clusterevents.Selector{}, func(_ context.Context, req *kopf.Request[configMap], _ *corev1.Event) error {
				return f.handle(t.Context(), req)
			})}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "IndexBy", declare: func(f *faultyFunction) options {
			r := f.resource()
			kopf.IndexBy(r, "fn", func(_ context.Context, req *kopf.Request[configMap]) (map[string]string, error) {
				return nil, f.handle(t.Context(), req)
			})
			return options{r}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "Use", declare: func(f *faultyFunction) options {
			r := f.resource()
			r.Use(func(next kopf.Handler[configMap]) kopf.Handler[configMap] {
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					f.forBad(req.Object)
					return next(ctx, req)
				}
			}).OnCreate("fn", noopConfigMap)
			return options{r}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "Daemon", declare: func(f *faultyFunction) options { return options{f.resource().Daemon("fn", daemons.Daemon{}, f.handle)} }, logged: []string{"Daemon failed", `"handler"="fn"`}, all: true},
		{name: "Timer", declare: func(f *faultyFunction) options {
			return options{f.resource().Timer("fn", daemons.Timer{Interval: time.Minute}, f.handle)}
		}, logged: []string{"Timer failed", `"handler"="fn"`}, all: true},
		{name: "Schedule", declare: func(f *faultyFunction) options {
			return options{f.resource().Timer("fn", daemons.Timer{Schedule: faultySchedule{f.fault}}, noopConfigMap)}
		}, logged: []string{"schedule returned an invalid time", `"error"="Schedule`}, all: true},
		{name: "InitialDelayFunc", declare: func(f *faultyFunction) options {
			return options{f.resource().Daemon("fn", daemons.Daemon{}, noopConfigMap, kopf.InitialDelayFunc(func(obj client.Object) time.Duration { f.forBad(obj); return 0 }))}
		}, logged: []string{"Failed to start a daemon or timer", `"error"="InitialDelayFunc`}, all: true},
		{name: "When", declare: func(f *faultyFunction) options {
			r := f.resource()
			r.When(func(req *kopf.Request[configMap]) bool { f.forBad(req.Object); return true }).OnCreate("fn", noopConfigMap)
			return options{r}
		}, logged: []string{"A filter panicked", `"handler"="fn"`, `"error"="When`}, all: true},
		{name: "When of an index", declare: func(f *faultyFunction) options {
			r := f.resource()
			kopf.IndexBy(r.When(func(req *kopf.Request[configMap]) bool { f.forBad(req.Object); return true }), "fn",
				func(context.Context, *kopf.Request[configMap]) (map[string]string, error) { return nil, nil })
			return options{r}
		}, logged: []string{"A filter panicked", `"handler"="fn"`, `"error"="When`}, all: true},
		{name: "Match", declare: func(f *faultyFunction) options {
			bad := filter.Match(func(value any) bool {
				if value == "bad" {
					f.fault()
				}
				return true
			})
			return options{f.resource().OnCreate("fn", noopConfigMap, kopf.Field("metadata.name", bad))}
		}, logged: []string{"A filter panicked", `"handler"="fn/metadata.name"`, `"error"="Match`}, all: true},
		{name: "OnChange", declare: func(f *faultyFunction) options {
			return options{kopf.OnChange(f.resource(), "fn", func(obj configMap) string { f.forBad(obj); return obj.Name },
				func(context.Context, *kopf.Request[configMap], string, string) error { return nil })}
		}, logged: []string{"A filter panicked", `"handler"="fn"`, `"error"="OnChange`}, all: true},
		{name: "BackoffFunc", declare: func(f *faultyFunction) options {
			return options{f.resource().OnCreate("fn", func(context.Context, *kopf.Request[configMap]) error { return errors.New("failed") },
				kopf.BackoffFunc(func(progress.Attempt, error) time.Duration { f.fault(); return 0 }))}
		}, logged: []string{"Handler failed", `"handler"="fn"`, `"error"="BackoffFunc`}, all: true},
		{name: "a method of an error", declare: func(f *faultyFunction) options {
			return options{f.resource().OnCreate("fn", func(context.Context, *kopf.Request[configMap]) error { return faultyError{f.fault} })}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "WithPredicates", declare: func(f *faultyFunction) options {
			return options{f.resource(kopf.WithPredicates(predicate.NewPredicateFuncs(faultyPredicate{faultyFunction: f}.accept)))}
		}, logged: []string{"A predicate panicked", `"error"="WithPredicates`, `"name"="bad"`}},
		{name: "Owns", declare: func(f *faultyFunction) options {
			r := f.resource().OnReconcile("fn", f.handled.handler("reconcile"))
			return options{r.Owns(&corev1.Secret{}, predicate.NewPredicateFuncs(faultyPredicate{faultyFunction: f}.accept))}
		}, logged: []string{"A predicate panicked", `"error"="Owns`, `"name"="bad"`}, all: true},
		{name: "Watches", declare: func(f *faultyFunction) options {
			r := f.resource().OnReconcile("fn", f.handled.handler("reconcile"))
			return options{r.Watches(&corev1.Secret{}, func(_ context.Context, obj client.Object) []reconcile.Request { f.forBad(obj); return nil })}
		}, logged: []string{"The map function of a related kind panicked", `"error"="Watches`, `"name"="bad"`}, all: true},
		{name: "ForKinds", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.ForKinds(kopf.Kinds("secrets"), func(metav1.APIResource) kopf.Option { f.fault(); return nil })}
		}, logged: []string{"The declaration of a kind is invalid", `"error"="the function of ForKinds`}, all: true},
		{name: "KindsFunc", declare: func(f *faultyFunction) options {
			selects := kopf.KindsFunc(func(kind metav1.APIResource) bool {
				if kind.Kind == "Secret" {
					f.fault()
				}
				return false
			})
			return options{f.resource(), kopf.ForKinds(selects, func(metav1.APIResource) kopf.Option { return kopf.For(&corev1.Secret{}) })}
		}, logged: []string{"The function passed to KindsFunc panicked", `"error"="Secret, v1: KindsFunc`}, all: true},
		{name: "WithNamespaceFunc", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { f.forBad(ns); return true })}
		}, logged: []string{"The function of WithNamespaceFunc panicked", `"error"="WithNamespaceFunc`, `"namespace"="bad"`}, all: true},
		{name: "WithKindCaches", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithNamespaces("*"), kopf.WithKindCaches(cache.Options{DefaultTransform: func(obj any) (any, error) {
				f.forBad(obj.(client.Object))
				return obj, nil
			}})}
		}, logged: []string{"A transformation of the cache panicked", `"error"="the transformation of the cache`}, all: true},
		{name: "WithLifecycle", declare: func(f *faultyFunction) options {
			choose := f.once()
			return options{f.resource(), kopf.WithLifecycle(func(due []string, _ func(string) progress.Record) []string { choose(); return due })}
		}, logged: []string{"A reconcile panicked", `"error"="WithLifecycle`}, all: true},
		{name: "WithProgress", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithProgress(faultyStore{progress.Smart(), f})}
		}, logged: []string{"A reconcile panicked", `"name"="bad"`}},
		{name: "StoreIn", declare: func(f *faultyFunction) options {
			return options{f.resource().OnCreate("fn", noopConfigMap, kopf.StoreIn(faultyStore{progress.InMemory(), f}))}
		}, logged: []string{"A reconcile panicked", `"name"="bad"`}},
		{name: "WithBaseline", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithBaseline(faultyBaseline{progress.AnnotationBaseline(""), f})}
		}, logged: []string{"A reconcile panicked", `"name"="bad"`}},
		{name: "WithRemote", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithRemote(faultyRemote{f})}
		}, logged: []string{"A reconcile panicked", `"name"="bad"`}},
		{name: "WithConditionsIn", declare: func(f *faultyFunction) options {
			adapter := func(obj client.Object) (conditions.Fields, error) { f.forBad(obj); return noConditions{}, nil }
			return options{f.resource(kopf.WithConditionsIn(conditions.Using(adapter)), kopf.WithConditions("Ready"))}
		}, logged: []string{"Failed to report the conditions", `"name"="bad"`}, all: true},
		{name: "WithConditionsIn of a running daemon", declare: func(f *faultyFunction) options {
			adapter := func(obj client.Object) (conditions.Fields, error) { f.forBad(obj); return noConditions{}, nil }
			r := f.resource(kopf.WithConditionsIn(conditions.Using(adapter)), kopf.WithPanicCondition("Degraded"))
			return options{r.Daemon("fn", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[configMap]) error { <-ctx.Done(); return nil })}
		}, logged: []string{"Failed to report the conditions", `"handler"="fn"`, `"name"="bad"`}, all: true},
		{name: "WithReconcilerWrapper", declare: func(f *faultyFunction) options {
			return options{f.resource(), kopf.WithReconcilerWrapper(func(next reconcile.Reconciler) reconcile.Reconciler {
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					if req.Name == "bad" {
						f.fault()
					}
					return next.Reconcile(ctx, req)
				})
			})}
		}, logged: []string{"A reconciler of WithReconcilerWrapper panicked", `"error"="WithReconcilerWrapper`, `"name"="bad"`}},
		{name: "WithAttemptHook", declare: func(f *faultyFunction) options {
			return options{f.resource().Timer("fn", daemons.Timer{Interval: time.Minute}, noopConfigMap), kopf.WithAttemptHook(func(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
				if a.Object.Name == "bad" {
					f.fault()
				}
				return ctx, nil
			})}
		}, logged: []string{"The function of WithAttemptHook panicked", `"error"="WithAttemptHook`, `"name"="bad"`}, all: true},
		{name: "the end of WithAttemptHook", declare: func(f *faultyFunction) options {
			return options{f.resource().Timer("fn", daemons.Timer{Interval: time.Minute}, noopConfigMap).Daemon("daemon", daemons.Daemon{}, noopConfigMap),
				kopf.WithAttemptHook(func(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
					return ctx, func(progress.Outcome) {
						if a.Object.Name == "bad" {
							f.fault()
						}
					}
				})}
		}, logged: []string{"The end function of WithAttemptHook panicked", `"error"="WithAttemptHook`, `"name"="bad"`}, all: true},
		{name: "OnStartup", declare: func(f *faultyFunction) options {
			start := f.once()
			return options{f.resource(), kopf.OnStartup("fn", func(context.Context) error { start(); return nil })}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "OnVersion", declare: func(f *faultyFunction) options {
			start := f.once()
			return options{f.resource(), kopf.OnVersion("fn", func(context.Context, version.Info, version.Info) error { start(); return nil })}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
		{name: "OnCleanup", declare: func(f *faultyFunction) options {
			end := f.once()
			return options{f.resource(), kopf.OnCleanup("fn", func(context.Context) error { end(); return nil }, kopf.Backoff(time.Second))}
		}, logged: []string{"Handler failed", `"handler"="fn"`}, all: true},
	} {
		for kind, fault := range faults {
			t.Run(test.name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := kopftest.Memory(t)
					f := &faultyFunction{T: t, cluster: c, fault: fault.do, handled: &texts{}}
					bad := newConfigMap("bad")
					c.Create(t, newNamespace("default"), newNamespace("bad"), bad, newConfigMap("one"))
					log := startGuarded(t, c, test.declare(f)...)
					<-time.After(10 * time.Second)
					c.Create(t, newSecret("bad"), newEvent(t, "event", bad))
					<-time.After(10 * time.Second)
					c.Create(t, newConfigMap("two"))
					<-time.After(3 * time.Minute)
					for name, want := range map[string]bool{"bad": test.all, "one": true, "two": true} {
						if got := strings.Contains(strings.Join(f.handled.all, ", "), "good default/"+name); got != want {
							t.Errorf("the handler of %s was called: %t, want %t", name, got, want)
						}
					}
					lines := log()
					if !slices.ContainsFunc(lines, func(line string) bool {
						return strings.Contains(line, fault.text) && strings.Contains(line, `"stack"=`) && strings.Contains(line, "guarded_test.go") &&
							!slices.ContainsFunc(test.logged, func(text string) bool { return !strings.Contains(line, text) })
					}) {
						t.Errorf("no line with %q, %q and the stack in the log:\n%s", fault.text, test.logged, strings.Join(lines, "\n"))
					}
				})
			})
		}
	}
}

type faultyError struct{ fault func() }

func (e faultyError) Error() string { e.fault(); return "failed" }

type noConditions struct{}

func (noConditions) List() []metav1.Condition { return nil }
func (noConditions) Put(metav1.Condition)     {}
func (noConditions) Remove(string)            {}

// startGuarded starts an operator without the test kit, because the test kit changes the calls of handlers. The returned function stops it, and returns the lines
// of its log.
func startGuarded(t *testing.T, c *kopftest.Cluster, options ...kopf.Option) (stop func() []string) {
	t.Helper()
	lines := &texts{}
	mgr, err := manager.New(c.Config, manager.Options{
		Scheme: c.Scheme, Metrics: server.Options{BindAddress: "0"}, Logger: funcr.New(func(_, line string) { lines.addf("%s", line) }, funcr.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kopf.SetupWithManager(mgr, options...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() []string {
		t.Helper()
		select {
		case err := <-ended:
			t.Fatalf("the operator has ended: %v", err)
		default:
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator has ended with an error: %v", err)
		}
		lines.mu.Lock()
		defer lines.mu.Unlock()
		return slices.Clone(lines.all)
	}
}

// The operator ends with an error if a source of TriggerFrom cannot be started.
func TestGuard_TriggerFrom(t *testing.T) {
	for kind, fault := range faults {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := kopftest.Memory(t)
				mgr, err := manager.New(c.Config, manager.Options{Scheme: c.Scheme, Metrics: server.Options{BindAddress: "0"}})
				if err != nil {
					t.Fatal(err)
				}
				src := source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
					fault.do()
					return nil
				})
				if err := kopf.SetupWithManager(mgr, kopf.For(&corev1.ConfigMap{}).OnReconcile("fn", noopConfigMap).TriggerFrom(src)); err != nil {
					t.Fatal(err)
				}
				if err := mgr.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the source of TriggerFrom") || !strings.Contains(err.Error(), fault.text) {
					t.Errorf("got the error %v, want one that names the source", err)
				}
			})
		})
	}
}

func TestGuard_Probe(t *testing.T) {
	for kind, fault := range faults {
		t.Run(kind, func(t *testing.T) {
			o := kopf.New(&fakeManager{}, kopf.OnProbe("fn", func(context.Context) (any, error) { fault.do(); return nil, nil }))
			response := httptest.NewRecorder()
			o.ServeProbes().ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
			if body := response.Body.String(); response.Code != 500 || !strings.Contains(body, `probe "fn"`) || !strings.Contains(body, fault.text) {
				t.Errorf("got the response %d with %q, want an error that names the probe", response.Code, body)
			}
		})
	}
}
