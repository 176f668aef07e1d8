package simulation

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

const maxLoops = 15 // maximum number of calls of a handler that triggers itself; the guard permits 10 a minute

// loopLogs runs an operator on two widgets while users edit the widgets. It returns the warnings about handlers that
// cause their own calls.
func loopLogs(t *testing.T, users func(t *testing.T, c client.Client, obj widget), widgets func() *kopf.Resource[widget]) (lines []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, c := newWorld(t)
		one, two := makeWidget(t, c, "one"), makeWidget(t, c, "two")
		var mu sync.Mutex
		log := funcr.New(func(_, args string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(args, "cause their own calls; the next calls are delayed") {
				lines = append(lines, args)
			}
		}, funcr.Options{})
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, Logger: log})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, widgets()))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		wait(time.Second)
		if users != nil {
			users(t, c, one)
			users(t, c, two)
		}
		wait(time.Minute)
		stop()
		must(t, <-ended)
	})
	return lines
}

var edited = func(t *testing.T, c client.Client, obj widget) {
	t.Helper()
	patch(t.Context(), t, c, obj, `{"metadata":{"labels":{"edited":"yes"}}}`)
}

// The engine logs a handler that triggers itself with a client once for each object.
func TestHandlersThatCauseTheirOwnCalls_AreLogged(t *testing.T) {
	grow := func(w widget) bool {
		w.Spec.Size++
		return w.Spec.Size < maxLoops
	}
	for name, test := range map[string]struct {
		write kopf.Handler[widget]
		field string
	}{
		"patch": {func(ctx context.Context, req *kopf.Request[widget]) error {
			changed := req.Object.DeepCopy()
			if !grow(changed) {
				return nil
			}
			return req.Client.Patch(ctx, changed, client.MergeFrom(req.Object))
		}, "spec.size"},
		"update": {func(ctx context.Context, req *kopf.Request[widget]) error {
			if changed := req.Object.DeepCopy(); grow(changed) {
				return req.Client.Update(ctx, changed)
			}
			return nil
		}, "spec.size"},
		"update of the request's own object": {func(ctx context.Context, req *kopf.Request[widget]) error {
			if grow(req.Object) {
				return req.Client.Update(ctx, req.Object)
			}
			return nil
		}, "spec.size"},
		"get and update": {func(ctx context.Context, req *kopf.Request[widget]) error {
			var live v1.Widget
			if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &live); err != nil {
				return err
			}
			if grow(&live) {
				return req.Client.Update(ctx, &live)
			}
			return nil
		}, "spec.size"},
		"a timestamp": {func(ctx context.Context, req *kopf.Request[widget]) error {
			at := req.Object.Labels["at"] + "x"
			if len(at) > maxLoops {
				return nil
			}
			data := `{"metadata":{"labels":{"at":"` + at + `"}}}`
			return req.Client.Patch(ctx, req.Object.DeepCopy(), rawPatch(data))
		}, "metadata.labels.at"},
	} {
		t.Run(name, func(t *testing.T) {
			lines := loopLogs(t, edited, func() *kopf.Resource[widget] {
				return kopf.For(&v1.Widget{}).
					OnUpdate("quiet", func(context.Context, *kopf.Request[widget]) error { return nil }).
					OnUpdate("loops", test.write)
			})
			if len(lines) != 2 {
				t.Fatalf("log lines for two objects = %d, want 2: %q", len(lines), lines)
			}
			for _, line := range lines {
				if !strings.Contains(line, `\"loops\" changes `+test.field) {
					t.Errorf("log line = %q, want the handler loops and the field %q", line, test.field)
				}
			}
		})
	}
}

// A handler can also trigger itself with a watched status field.
func TestHandlersThatCauseTheirOwnCalls_Status(t *testing.T) {
	lines := loopLogs(t, edited, func() *kopf.Resource[widget] {
		next := func(ctx context.Context, req *kopf.Request[widget]) error {
			changed := req.Object.DeepCopy()
			if changed.Status.Phase += "x"; len(changed.Status.Phase) > maxLoops {
				return nil
			}
			return req.Client.Status().Patch(ctx, changed, client.MergeFrom(req.Object))
		}
		return kopf.For(&v1.Widget{}).OnCreate("create", next).OnField("loops", "status.phase", next)
	})
	if len(lines) != 2 || !strings.Contains(lines[0], "loops") || !strings.Contains(lines[0], "status") {
		t.Errorf("log lines = %q, want 2 about loops and status", lines)
	}
}

// The engine does not report quick edits by users, or handlers that always write the same value, as loops.
func TestHandlersThatCauseTheirOwnCalls_NoFalseAlarms(t *testing.T) {
	quickly := func(t *testing.T, c client.Client, obj widget) {
		t.Helper()
		for n := range 50 {
			patch(t.Context(), t, c, obj, fmt.Sprintf(`{"spec":{"size":%d}}`, n+2))
			wait(30 * time.Millisecond)
		}
	}
	painted := func(w widget) { w.Spec.Color = "painted" }
	for name, write := range map[string]kopf.Handler[widget]{
		"no writes": func(context.Context, *kopf.Request[widget]) error {
			wait(100 * time.Millisecond)
			return nil
		},
		"the same patch": func(ctx context.Context, req *kopf.Request[widget]) error {
			wait(100 * time.Millisecond)
			return req.Client.Patch(ctx, req.Object.DeepCopy(), rawPatch(`{"spec":{"color":"painted"}}`))
		},
		"get and update": func(ctx context.Context, req *kopf.Request[widget]) error {
			wait(100 * time.Millisecond)
			var live v1.Widget
			if err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), &live); err != nil {
				return err
			}
			painted(&live)
			return client.IgnoreNotFound(req.Client.Update(ctx, &live))
		},
		"the observed size in an annotation": func(ctx context.Context, req *kopf.Request[widget]) error {
			seen := req.Object.Spec.Size
			wait(100 * time.Millisecond)
			return req.Client.Patch(ctx, req.Object.DeepCopy(), rawPatch(fmt.Sprintf(`{"metadata":{"annotations":{"example.com/seen":"%d"}}}`, seen)))
		},
		"a change of the request's object": func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Spec.Tags = append(req.Object.Spec.Tags, "more")
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := loopLogs(t, quickly, func() *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnUpdate("update", write) })
			if len(lines) > 0 {
				t.Errorf("log lines = %q, want none", lines)
			}
		})
	}
}
