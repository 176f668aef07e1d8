package simulation

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// kindsOfHandlers registers one handler with the id "x" for each kind of handler.
var kindsOfHandlers = map[string]func(kopf.Handler[widget]) *kopf.Resource[widget]{
	"cause handler":     func(h kopf.Handler[widget]) *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnCreate("x", h) },
	"reconcile handler": func(h kopf.Handler[widget]) *kopf.Resource[widget] { return kopf.For(&v1.Widget{}).OnReconcile("x", h) },
	"daemon": func(h kopf.Handler[widget]) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).Daemon("x", daemons.Daemon{}, h)
	},
	"timer": func(h kopf.Handler[widget]) *kopf.Resource[widget] {
		return kopf.For(&v1.Widget{}).Timer("x", daemons.Timer{Interval: time.Hour}, h)
	},
}

// A handler that changes the identity of req.Object fails permanently. The error names the field and the solution.
func TestIdentity_MustNotBeChanged(t *testing.T) {
	for change, test := range map[string]struct {
		do   func(ctx context.Context, req *kopf.Request[widget]) error
		want string
	}{
		"the name": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Name = "two"
			return nil
		}, `metadata.name must not be changed from "one" to "two"`},
		"the namespace": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Namespace = "other"
			return nil
		}, `metadata.namespace must not be changed from "ns" to "other"`},
		"the uid": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.UID = "other"
			return nil
		}, `metadata.uid must not be changed`},
		"the kind": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.Kind = "Gadget"
			return nil
		}, `kind must not be changed from "Widget" to "Gadget"`},
		"the version": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object.APIVersion = "other/v1"
			return nil
		}, `apiVersion must not be changed from "e2e.example.com/v1" to "other/v1"`},
		"the pointer: a new object without a name": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object = &v1.Widget{Spec: v1.WidgetSpec{Size: 7}}
			return nil
		}, `metadata.name must not be changed from "one" to ""`},
		"the pointer: a new object of the same name": {func(_ context.Context, req *kopf.Request[widget]) error {
			other := &v1.Widget{Spec: v1.WidgetSpec{Size: 7}}
			other.Namespace, other.Name = req.Object.Namespace, req.Object.Name
			req.Object = other
			return nil
		}, `metadata.uid must not be changed`},
		"the pointer: nil": {func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object = nil
			return nil
		}, `req.Object must not be nil`},
		"the name, before a Flush": {func(ctx context.Context, req *kopf.Request[widget]) error {
			req.Object.Name, req.Object.Status.Phase = "two", "Flushed"
			return req.Flush(ctx)
		}, `metadata.name must not be changed from "one" to "two"`},
		"the object: a copy of another one": {func(ctx context.Context, req *kopf.Request[widget]) error {
			other := &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}
			other.Namespace, other.Name = namespace, "other"
			if err := req.Client.Create(ctx, other); err != nil {
				return kopf.Permanent(err)
			}
			other.DeepCopyInto(req.Object) // a read of another object has the same effect
			return nil
		}, `metadata.name must not be changed from "one" to "other"`},
	} {
		for kind, register := range kindsOfHandlers {
			t.Run(change+", by a "+kind, func(t *testing.T) {
				var calls atomic.Int64
				widgets := register(func(ctx context.Context, req *kopf.Request[widget]) error {
					if req.Object.Name != "one" {
						return nil
					}
					if calls.Add(1) > 1 && req.Reason != kopf.ReasonReconcile {
						t.Error("handler calls = 2, want 1: the error is permanent")
					}
					req.Object.Spec.Size = 5
					return test.do(ctx, req)
				})
				box := &mailbox{}
				playOn(t, func(config *rest.Config) { box = intercept(config) }, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, func(t *testing.T, s *scene) {
					wait(time.Hour / 2)
					if got := s.now(t); got.Spec.Size != 1 || got.Status.Phase != "" {
						t.Errorf("spec = %+v, status = %+v, want no change", got.Spec, got.Status)
					}
					box.mu.Lock()
					defer box.mu.Unlock()
					notes := box.posted["one"]
					if len(notes) != 1 || !strings.Contains(notes[0].Note, test.want) || !strings.Contains(notes[0].Note, `handler "x": `) {
						t.Errorf("Events = %q, want one that contains %q", notes, test.want)
					}
				})
			})
		}
	}
}

// A handler may read the object into req.Object, and may replace the pointer with another copy of the same object.
func TestIdentity_AllowsOtherCopiesOfTheObject(t *testing.T) {
	for change, do := range map[string]func(ctx context.Context, req *kopf.Request[widget]) error{
		"a read into the object": func(ctx context.Context, req *kopf.Request[widget]) error {
			return req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), req.Object)
		},
		"a copy": func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object = req.Object.DeepCopy()
			return nil
		},
		"a read into a new object": func(ctx context.Context, req *kopf.Request[widget]) error {
			read := &v1.Widget{}
			err := req.Client.Get(ctx, client.ObjectKeyFromObject(req.Object), read)
			req.Object = read
			return err
		},
		"the latest state": func(_ context.Context, req *kopf.Request[widget]) error {
			req.Object = req.Latest()
			return nil
		},
	} {
		for kind, register := range kindsOfHandlers {
			t.Run(change+", by a "+kind, func(t *testing.T) {
				widgets := register(func(ctx context.Context, req *kopf.Request[widget]) error {
					err := do(ctx, req)
					req.Object.Spec.Size = 5
					return err
				})
				play(t, widgets, func(t *testing.T, s *scene) {
					wait(time.Minute)
					if got := s.now(t); got.Spec.Size != 5 {
						t.Errorf("spec = %+v, want size 5", got.Spec)
					}
				})
			})
		}
	}
}

// req.Conditions sets conditions on the object that req.Object points to.
func TestIdentity_ConditionsFollowThePointer(t *testing.T) {
	widgets := kopf.For(&v1.Widget{}).OnCreate("x", func(_ context.Context, req *kopf.Request[widget]) error {
		req.Conditions().True("First", "Done", "")
		req.Object = req.Object.DeepCopy()
		req.Conditions().True("Second", "Done", "")
		return nil
	})
	play(t, widgets, func(t *testing.T, s *scene) {
		wait(time.Minute)
		if got := conditionsOf(s.now(t)); !slices.Equal(got, []string{"First=True", "Second=True"}) {
			t.Errorf("conditions = %v, want First=True and Second=True", got)
		}
	})
}
