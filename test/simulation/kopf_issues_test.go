package simulation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// The tests reproduce bug reports of kopf users: handlers miss a change that was made while other handlers were
// running. Both tests use kopf's own lifecycle, which calls one handler in each reconcile.

type request = kopf.Request[*v1.Widget]

// stage runs an operator in virtual time, creates a widget, calls play to change it, and waits until the operator is quiet. The handlers of one
// object run sequentially, so the test needs no lock for their results.
func stage(t *testing.T, widgets *kopf.Resource[*v1.Widget], play func(ctx context.Context, users client.Client, obj *v1.Widget)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		scheme, config := runtime.NewScheme(), simulated()
		must(t, v1.AddToScheme(scheme))
		users, err := client.New(config, client.Options{Scheme: scheme})
		must(t, err)
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, widgets, kopf.WithLifecycle(progress.Asap)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()

		obj := &v1.Widget{Spec: v1.WidgetSpec{Color: "A"}}
		obj.Namespace, obj.Name = namespace, "one"
		must(t, users.Create(ctx, obj))
		<-time.After(time.Minute)
		play(ctx, users, obj)
		<-time.After(10 * time.Minute)
		stop()
		must(t, <-ended)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patch(ctx context.Context, t *testing.T, c client.Client, obj *v1.Widget, text string) {
	t.Helper()
	must(t, c.Patch(ctx, obj.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))))
}

// nolar/kopf#1178: one handler implements a state machine by writing the next state, and another one handles annotations. If a user annotates the
// object while these handlers run, kopf misses a state. (B-01)
func TestIssue1178(t *testing.T) {
	var states, notes []string
	next := map[string]string{"A": "B", "B": "C", "C": "D"}
	widgets := kopf.For(&v1.Widget{}).
		OnUpdate("machine", func(ctx context.Context, req *request) error {
			state := req.Object.Spec.Color
			if req.Old.Spec.Color == state {
				return nil
			}
			states = append(states, state)
			<-time.After(5 * time.Second)
			if next[state] != "" {
				patch(ctx, t, req.Client, req.Object, fmt.Sprintf(`{"spec":{"color":%q}}`, next[state]))
			}
			return nil
		}).
		OnUpdate("control", func(_ context.Context, req *request) error {
			notes = append(notes, req.Object.Annotations["note"])
			<-time.After(time.Second)
			return nil
		})
	stage(t, widgets, func(ctx context.Context, users client.Client, obj *v1.Widget) {
		patch(ctx, t, users, obj, `{"spec":{"color":"B"}}`)
		<-time.After(2 * time.Second)
		patch(ctx, t, users, obj, `{"metadata":{"annotations":{"note":"first"}}}`)
		<-time.After(6 * time.Second)
		patch(ctx, t, users, obj, `{"metadata":{"annotations":{"note":"second"}}}`)
	})
	if diff := cmp.Diff([]string{"B", "C", "D"}, states); diff != "" {
		t.Errorf("handled states (-want +got):\n%s", diff)
	}
	if len(notes) == 0 || notes[len(notes)-1] != "second" {
		t.Errorf("notes = %q, want second as the last one", notes)
	}
}

// zalando-incubator/kopf#279: there are five handlers and two quick edits. In kopf, some handlers receive only the
// first edit. In the second case, one handler fails at first. (B-01)
func TestIssue279(t *testing.T) {
	for name, failing := range map[string]string{"quick edits": "", "a retry": "h1"} {
		t.Run(name, func(t *testing.T) {
			seen := map[string]string{}
			widgets := kopf.For(&v1.Widget{})
			for n := range 5 {
				id := fmt.Sprintf("h%d", n)
				reasons := []kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate}
				widgets.On(id, reasons, func(_ context.Context, req *request) error {
					<-time.After(time.Second)
					if id == failing && req.Attempt.Number == 0 {
						return kopf.Temporary(nil, time.Minute)
					}
					seen[id] = req.Object.Spec.Color
					return nil
				})
			}
			stage(t, widgets, func(ctx context.Context, users client.Client, obj *v1.Widget) {
				<-time.After(2 * time.Minute)
				patch(ctx, t, users, obj, `{"spec":{"color":"value1"}}`)
				<-time.After(2500 * time.Millisecond)
				patch(ctx, t, users, obj, `{"spec":{"color":"value2"}}`)
			})
			want := map[string]string{}
			for n := range 5 {
				want[fmt.Sprintf("h%d", n)] = "value2"
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("last state received by each handler (-want +got):\n%s", diff)
			}
		})
	}
}
