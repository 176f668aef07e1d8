package kopf_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestRenamedFrom_ContinuesWithTheProgress(t *testing.T) {
	for name, test := range map[string]struct {
		options []kopf.HandlerOption
		want    []string // attempts after the change of the id
	}{
		"without the option": {nil, []string{"parent 0", "child 0"}},
		"with the option":    {[]kopf.HandlerOption{kopf.RenamedFrom("unused", "old")}, []string{"parent 1", "child 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var attempts []string
				failing := true
				parent := func(_ context.Context, req *kopf.Request[configMap]) error {
					attempts = append(attempts, "parent "+strconv.Itoa(req.Attempt.Number))
					req.Sub("child", func(_ context.Context, sub *kopf.Request[configMap]) error {
						attempts = append(attempts, "child "+strconv.Itoa(sub.Attempt.Number))
						if failing {
							return kopf.Temporary(errors.New("not yet"), time.Minute)
						}
						return nil
					})
					if failing && req.Attempt.Number == 0 {
						return kopf.Temporary(errors.New("not yet"), time.Second)
					}
					return nil
				}
				annotations := func() []string {
					obj := newConfigMap("one")
					cluster.Get(t, obj)
					return slices.Sorted(maps.Keys(obj.Annotations))
				}
				operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("old", parent))
				<-time.After(10 * time.Second)
				operator.Stop(t)
				if got := annotations(); !slices.Contains(got, progress.DefaultPrefix+"/old") || !slices.Contains(got, progress.DefaultPrefix+"/old.child") {
					t.Fatalf("annotations = %q, want records of old and old/child", got)
				}
				attempts, failing = nil, false
				operator = cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("new", parent, test.options...))
				operator.RunUntilQuiet(t)
				if !slices.Equal(attempts, test.want) {
					t.Errorf("attempts = %q, want %q", attempts, test.want)
				}
				if got := annotations(); len(got) != 2 || got[0] != progress.DefaultPrefix+"/last-handled-configuration" || !strings.HasPrefix(got[1], progress.DefaultPrefix+"/state-of-") {
					t.Errorf("annotations = %q, want the baseline and the stamp", got)
				}
			})
		})
	}
}

func TestRenamedFrom_ReportsMistakes(t *testing.T) {
	handle := func(context.Context, *kopf.Request[configMap]) error { return nil }
	resource := func() *kopf.Resource[configMap] { return kopf.For(&corev1.ConfigMap{}) }
	for want, declared := range map[string]*kopf.Resource[configMap]{
		"has no ids":             resource().OnCreate("a", handle, kopf.RenamedFrom()),
		"is the id of a handler": resource().OnCreate("a", handle).OnUpdate("b", handle, kopf.RenamedFrom("a")),
		"is given twice":         resource().OnCreate("a", handle, kopf.RenamedFrom("x")).OnUpdate("b", handle, kopf.RenamedFrom("x")),
		"has no effect on":       resource().OnReconcile("a", handle, kopf.RenamedFrom("x")),
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var err error
				kopftest.Memory(t).RunManager(t, func(mgr manager.Manager) error {
					err = kopf.New(mgr, declared).CheckDeclaration()
					return nil
				})
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want %q in it", err, want)
				}
			})
		})
	}
}

func TestEventAbout_NamesBothObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Types(clientgoscheme.Scheme), kopftest.Objects(newConfigMap("one"), newSecret("other")))
		operator := cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
			other := newSecret("other")
			req.EventAbout(other, "Normal", "Unread", "Read", "the object has no uid")
			cluster.Get(t, other)
			req.EventAbout(other, "Normal", "Used", "Use", "%s uses the Secret", req.Object.Name)
			return nil
		}))
		operator.RunUntilQuiet(t)
		operator.Stop(t)
		var list eventsv1.EventList
		if err := cluster.Client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 {
			t.Fatalf("%d Events, want 1: %v", len(list.Items), list.Items)
		}
		event := list.Items[0]
		if event.Regarding.Kind != "Secret" || event.Regarding.Name != "other" || event.Regarding.UID == "" ||
			event.Related == nil || event.Related.Kind != "ConfigMap" || event.Related.Name != "one" || event.Note != "one uses the Secret" {
			t.Errorf("regarding = %v, related = %v, note = %q, want Secret other with its uid, ConfigMap one, and the note %q",
				event.Regarding, event.Related, event.Note, "one uses the Secret")
		}
	})
}
