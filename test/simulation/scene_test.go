package simulation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

// scene is a running operator with one widget.
type scene struct {
	config *rest.Config
	users  client.Client
	obj    widget
}

// play runs an operator in virtual time on an existing widget.
func play(t *testing.T, widgets kopf.Option, act func(t *testing.T, s *scene), more ...kopf.Option) {
	t.Helper()
	playOn(t, func(*rest.Config) {}, &v1.Widget{Spec: v1.WidgetSpec{Size: 1}}, widgets, act, more...)
}

func playOn(t *testing.T, alter func(*rest.Config), obj widget, widgets kopf.Option, act func(t *testing.T, s *scene), more ...kopf.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		config, scheme, users := newWorld(t)
		alter(config)
		obj := obj.DeepCopy()
		obj.Namespace, obj.Name = namespace, "one"
		must(t, users.Create(t.Context(), obj))
		mgr, err := manager.New(config, manager.Options{Scheme: scheme, Metrics: server.Options{BindAddress: "0"}})
		must(t, err)
		must(t, kopf.SetupWithManager(mgr, append([]kopf.Option{widgets}, more...)...))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		act(t, &scene{config, users, obj})
		stop()
		must(t, <-ended)
	})
}

func (s *scene) now(t *testing.T) widget {
	t.Helper()
	obj := &v1.Widget{}
	must(t, s.users.Get(t.Context(), client.ObjectKeyFromObject(s.obj), obj))
	return obj
}

func (s *scene) patch(t *testing.T, text string) {
	t.Helper()
	patch(t.Context(), t, s.users, s.obj, text)
}

func (s *scene) patchStatus(t *testing.T, text string) {
	t.Helper()
	must(t, s.users.Status().Patch(t.Context(), s.obj.DeepCopy(), rawPatch(text)))
}

func wait(pause time.Duration) { <-time.After(pause) }

func sprint(v any) string { return fmt.Sprint(v) }

func rawPatch(text string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(text))
}
