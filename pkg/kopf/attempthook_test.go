package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

type hookKey struct{}

// hookLog records the calls of a hook.
type hookLog struct {
	mu       sync.Mutex
	attempts []kopf.AttemptInfo
	parents  []string // the handler whose context the hook has received, for each attempt
	outcomes map[string][]progress.Outcome
	open     int
}

func (l *hookLog) hook(ctx context.Context, a kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	parent, _ := ctx.Value(hookKey{}).(string)
	l.attempts, l.parents = append(l.attempts, a), append(l.parents, parent)
	l.open++
	return context.WithValue(ctx, hookKey{}, a.Handler), func(outcome progress.Outcome) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.outcomes == nil {
			l.outcomes = map[string][]progress.Outcome{}
		}
		l.outcomes[a.Handler] = append(l.outcomes[a.Handler], outcome)
		l.open--
	}
}

// of returns the attempts of a handler.
func (l *hookLog) of(id string) (attempts []kopf.AttemptInfo) {
	for _, a := range l.attempts {
		if a.Handler == id {
			attempts = append(attempts, a)
		}
	}
	return attempts
}

func TestWithAttemptHook_AllKindsOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooked hookLog
		var mu sync.Mutex
		contexts := map[string]any{} // what the context of each handler contains
		seen := func(id string) kopf.Handler[configMap] {
			return func(ctx context.Context, _ *kopf.Request[configMap]) error {
				mu.Lock()
				defer mu.Unlock()
				contexts[id] = ctx.Value(hookKey{})
				return nil
			}
		}
		configMaps := kopf.For(&corev1.ConfigMap{}).
			OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
				req.Sub("sub", seen("create/sub"))
				return seen("create")(ctx, req)
			}).
			OnCreate("last", seen("last")).
			OnDelete("delete", seen("delete")).OnDelete("optional", seen("optional"), kopf.Optional()).
			OnEvent("event", seen("event")).
			OnReconcile("reconcile", seen("reconcile")).
			Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, req *kopf.Request[configMap]) error {
				<-ctx.Done()
				return seen("daemon")(ctx, req)
			}).
			Timer("timer", daemons.Timer{Interval: time.Hour}, seen("timer"))
		kopf.IndexBy(configMaps, "index", func(ctx context.Context, req *kopf.Request[configMap]) (map[string]int, error) {
			return nil, seen("index")(ctx, req)
		})
		cluster := kopftest.Memory(t)
		operator := cluster.Run(t, configMaps, kopf.WithAttemptHook(hooked.hook))
		operator.RunUntilQuiet(t)
		obj := newConfigMap("one")
		cluster.Create(t, obj)
		operator.RunUntilQuiet(t)
		cluster.Delete(t, obj)
		operator.RunUntilQuiet(t)
		operator.Stop(t)
		if hooked.open != 0 {
			t.Errorf("%d attempts have no end", hooked.open)
		}
		for id, reason := range map[string]kopf.Reason{
			"create": kopf.ReasonCreate, "create/sub": kopf.ReasonCreate, "last": kopf.ReasonCreate, "delete": kopf.ReasonDelete, "optional": kopf.ReasonDelete,
			"event": kopf.ReasonEvent, "reconcile": kopf.ReasonReconcile, "daemon": kopf.ReasonDaemon, "timer": kopf.ReasonTimer,
			"index": kopf.ReasonIndex,
		} {
			attempts := hooked.of(id)
			if len(attempts) == 0 {
				t.Errorf("the hook was not called for %s", id)
				continue
			}
			a := attempts[0]
			isCause := reason == kopf.ReasonCreate || reason == kopf.ReasonDelete
			if a.Reason != reason || a.Kind != corev1.SchemeGroupVersion.WithKind("ConfigMap") || a.UID != obj.UID || a.UID == "" ||
				a.Object != (types.NamespacedName{Namespace: "default", Name: "one"}) || a.CycleStarted.IsZero() == isCause || a.Attempt.Started.IsZero() {
				t.Errorf("the hook received %+v for %s, want the reason %q, ConfigMap default/one with the uid %q, and the start of a cycle: %t", a, id, reason, obj.UID, isCause)
			}
			if contexts[id] != id {
				t.Errorf("the context of %s contains %v, want its id", id, contexts[id])
			}
			if outcomes := hooked.outcomes[id]; len(outcomes) != len(attempts) || !outcomes[len(outcomes)-1].Success {
				t.Errorf("outcomes of %s = %+v, want %d outcomes, the last one a success", id, outcomes, len(attempts))
			}
		}
		for i, a := range hooked.attempts {
			want := ""
			if a.Handler == "create/sub" {
				want = "create"
			}
			if hooked.parents[i] != want {
				t.Errorf("the hook received the context of %q for %s, want %q", hooked.parents[i], a.Handler, want)
			}
		}
	})
}

// The start of the cycle survives a crash. It has the precision of stored records.
func TestWithAttemptHook_CycleStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(1234567 * time.Nanosecond)
		var hooked hookLog
		failures := 2
		setup := func() []kopf.Option {
			return []kopf.Option{kopf.WithAttemptHook(hooked.hook), kopf.For(&corev1.ConfigMap{}).
				OnCreate("first", func(context.Context, *kopf.Request[configMap]) error { return nil }).
				OnCreateOrUpdate("second", func(_ context.Context, req *kopf.Request[configMap]) error {
					if failures--; failures >= 0 {
						return kopf.Temporary(errors.New("busy"), time.Minute)
					}
					req.Sub("sub", func(context.Context, *kopf.Request[configMap]) error { return nil })
					return nil
				})}
		}
		cluster := kopftest.Memory(t)
		obj := newConfigMap("one")
		cluster.Create(t, obj)
		operator := cluster.Run(t, setup()...)
		<-time.After(30 * time.Second)
		operator.Crash(t)
		operator = cluster.Run(t, setup()...)
		operator.RunUntilQuiet(t)
		<-time.After(time.Hour)
		kopftest.Edit(t, cluster, obj, setSize("2"))
		operator.RunUntilQuiet(t)
		cycles := map[time.Time][]string{}
		for _, a := range hooked.attempts {
			cycles[a.CycleStarted] = append(cycles[a.CycleStarted], fmt.Sprintf("%s %s %d", a.Reason, a.Handler, a.Attempt.Number))
		}
		create := []string{"create first 0", "create second 0", "create second 1", "create second 2", "create second/sub 0"}
		update := []string{"update second 0", "update second/sub 0"}
		if got := cycles[hooked.attempts[0].CycleStarted]; !slices.Equal(got, create) {
			t.Errorf("attempts of the first cycle = %q, want %q", got, create)
		}
		if got := cycles[hooked.of("second")[3].CycleStarted]; !slices.Equal(got, update) || len(cycles) != 2 {
			t.Errorf("attempts of the second cycle = %q, want %q; all: %v", got, update, cycles)
		}
	})
}

// A handler that is selected later belongs to the same cycle.
func TestWithAttemptHook_HandlerSelectedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooked hookLog
		cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
		operator := cluster.Run(t, kopf.WithAttemptHook(hooked.hook), kopf.For(&corev1.ConfigMap{}).
			OnCreate("first", func(_ context.Context, req *kopf.Request[configMap]) error {
				if req.Attempt.Number == 0 {
					return kopf.Temporary(errors.New("busy"), time.Minute)
				}
				return nil
			}).
			OnCreate("later", func(context.Context, *kopf.Request[configMap]) error { return nil }, kopf.Label("tier", filter.Present)))
		<-time.After(10 * time.Second)
		kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Labels = map[string]string{"tier": "a"} })
		operator.RunUntilQuiet(t)
		later := hooked.of("later")
		if len(later) != 1 || !later[0].Attempt.Started.After(later[0].CycleStarted) || later[0].Reason != kopf.ReasonCreate {
			t.Fatalf("attempts = %+v, want one that was selected after the start of the cycle", later)
		}
		for _, a := range hooked.of("first") {
			if a.CycleStarted != later[0].CycleStarted {
				t.Errorf("start of the cycle = %s and %s, want the same", a.CycleStarted, later[0].CycleStarted)
			}
		}
	})
}

// The hook neither changes nor hides the outcome of a handler.
func TestWithAttemptHook_Outcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooked hookLog
		panics := func(context.Context, *kopf.Request[configMap]) error { panic("no disk") }
		fails := func(context.Context, *kopf.Request[configMap]) error { return errors.New("busy") }
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithAttemptHook(hooked.hook), kopf.For(&corev1.ConfigMap{}).
			OnCreate("panics", panics, kopf.Retries(2)).
			OnCreate("fails", fails, kopf.ErrorMode(progress.ErrorsPermanent)).
			OnCreate("ignored", fails, kopf.ErrorMode(progress.ErrorsIgnored)).
			OnCreate("forbidden", fails, kopf.Retries(0)).
			OnEvent("event", panics).
			Daemon("daemon", daemons.Daemon{}, panics, kopf.Retries(1)))
		operator.RunUntilQuiet(t)
		if hooked.open != 0 {
			t.Errorf("%d attempts have no end", hooked.open)
		}
		for id, want := range map[string][]string{
			"panics":    {"retried panic: no disk", "failed panic: no disk"},
			"fails":     {"failed busy"},
			"ignored":   {"succeeded busy"},
			"forbidden": {"forbidden"},
			"event":     {"failed panic: no disk"},
			"daemon":    {"failed panic: no disk"},
		} {
			var got []string
			for _, outcome := range hooked.outcomes[id] {
				got = append(got, describe(outcome))
			}
			if got = slices.Compact(got); !slices.Equal(got, want) { // there are several events
				t.Errorf("outcomes of %s = %q, want %q", id, got, want)
			}
		}
	})
}

func describe(outcome progress.Outcome) string {
	word := "retried"
	switch {
	case !outcome.Attempted:
		return "forbidden"
	case outcome.Success:
		word = "succeeded"
	case outcome.Final:
		word = "failed"
	}
	if panicked, ok := errors.AsType[*progress.PanicError](outcome.Err); ok {
		return word + " " + panicked.Error()
	}
	if limited, ok := errors.AsType[*progress.LimitError](outcome.Err); ok {
		return word + " " + limited.Err.Error()
	}
	return word + " " + outcome.Err.Error()
}

// A hook may return nil. With several hooks, the last one is the innermost.
func TestWithAttemptHook_SeveralHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps []string
		hook := func(name string) kopf.Option {
			return kopf.WithAttemptHook(func(ctx context.Context, _ kopf.AttemptInfo) (context.Context, func(progress.Outcome)) {
				outer, _ := ctx.Value(hookKey{}).(string)
				steps = append(steps, "begin "+outer+name)
				return context.WithValue(ctx, hookKey{}, outer+name), func(progress.Outcome) { steps = append(steps, "end "+name) }
			})
		}
		nothing := kopf.WithAttemptHook(func(context.Context, kopf.AttemptInfo) (context.Context, func(progress.Outcome)) { return nil, nil })
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, hook("a"), nothing, hook("b"),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, _ *kopf.Request[configMap]) error {
				steps = append(steps, fmt.Sprint("call in ", ctx.Value(hookKey{})))
				return nil
			}))
		operator.RunUntilQuiet(t)
		if want := []string{"begin a", "begin ab", "call in ab", "end b", "end a"}; !slices.Equal(steps, want) {
			t.Errorf("steps = %q, want %q", steps, want)
		}
	})
}

// Each call of a handler that waits for its sub-handlers is an attempt, and none is inside of another one.
func TestWithAttemptHook_SubsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooked hookLog
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithAttemptHook(hooked.hook),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(_ context.Context, req *kopf.Request[configMap]) error {
				req.Sub("sub", func(context.Context, *kopf.Request[configMap]) error { return nil })
				req.AwaitSubs()
				return nil
			}))
		operator.RunUntilQuiet(t)
		if want := []string{"", "create", ""}; !slices.Equal(hooked.parents, want) {
			t.Errorf("parents = %q, want %q", hooked.parents, want)
		}
		if got := hooked.outcomes["create"]; len(got) != 2 || !got[0].Waiting || !got[1].Success {
			t.Errorf("outcomes = %+v, want waiting and success", got)
		}
	})
}

// A handler that exits its goroutine also ends its attempt.
func TestWithAttemptHook_EndsIfTheGoroutineExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hooked hookLog
		operator := kopftest.Memory(t, kopftest.Objects(newConfigMap("one"))).Run(t, kopf.WithAttemptHook(hooked.hook),
			kopf.For(&corev1.ConfigMap{}).Daemon("daemon", daemons.Daemon{}, func(context.Context, *kopf.Request[configMap]) error {
				runtime.Goexit()
				return nil
			}, kopf.Retries(1)))
		operator.RunUntilQuiet(t)
		if got := hooked.outcomes["daemon"]; hooked.open != 0 || len(got) == 0 || got[0].Err == nil {
			t.Errorf("open attempts = %d, outcomes = %+v, want no open attempts, and an error in the first outcome", hooked.open, got)
		}
	})
}
