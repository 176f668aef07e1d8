package kopf_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

type nameIndex = *kopf.Index[string, string]

// indexByTeam adds an index of the names of ConfigMaps by their label.
func indexByTeam(resource *kopf.Resource[configMap]) nameIndex {
	return kopf.IndexBy(resource, "by-team", func(_ context.Context, req *kopf.Request[configMap]) (map[string]string, error) {
		return map[string]string{req.Object.Labels["team"]: req.Object.Name}, nil
	})
}

// An index has synced before any handler is called, and until the operator ends.
func TestIndex_HasSynced(t *testing.T) {
	for name, test := range map[string]struct {
		resource []kopf.ResourceOption
		operator []kopf.Option
	}{
		"a fixed kind":             {},
		"namespaces":               {operator: []kopf.Option{kopf.WithNamespaces("default")}},
		"a kind at run time":       {resource: []kopf.ResourceOption{kopf.WhenServed()}},
		"both":                     {[]kopf.ResourceOption{kopf.WhenServed()}, []kopf.Option{kopf.WithNamespaces("default")}},
		"a kind without a handler": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("default"), newConfigMap("one", "team", "a"), newConfigMap("two", "team", "a")))
				indexed := kopf.For(&corev1.ConfigMap{}, test.resource...)
				index := indexByTeam(indexed)
				var mu sync.Mutex // the two objects are handled at the same time
				var seen []bool
				if name != "a kind without a handler" {
					indexed.OnCreate("create", func(context.Context, *kopf.Request[configMap]) error {
						mu.Lock()
						defer mu.Unlock()
						seen = append(seen, index.HasSynced() && len(index.Get("a")) == 2)
						return nil
					}, kopf.Label("team"))
				}
				if index.HasSynced() {
					t.Error("the index has synced before the start")
				}
				operator := cluster.Run(t, append(test.operator, indexed)...)
				<-time.After(time.Minute)
				if slices.Contains(seen, false) || !index.HasSynced() || index.Len() != 1 {
					t.Errorf("complete in the handlers: %v, at the end: %t, with %d keys; want only true, true, 1", seen, index.HasSynced(), index.Len())
				}
				operator.Stop(t)
				if index.HasSynced() {
					t.Error("the index has synced after the end")
				}
			})
		})
	}
}

// A replica that waits for leadership keeps its indexes up to date for its admission handlers if the manager has EnableWarmup. They stay complete during
// the takeover.
func TestWarmup_FillsIndexes(t *testing.T) {
	for name, c := range map[string]struct {
		options []kopf.Option
		kind    []kopf.ResourceOption
		relists bool // the indexes are empty for a moment during the takeover
	}{
		"cache of the manager": {},
		"watch selector":       {options: []kopf.Option{kopf.WithWatchSelector("team")}},
		"namespace patterns":   {options: []kopf.Option{kopf.WithNamespaces("def*")}},
		"namespace names":      {options: []kopf.Option{kopf.WithNamespaces("default")}},
		"kind that may come":   {kind: []kopf.ResourceOption{kopf.WhenServed()}, relists: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fillsIndexes(t, c.options, c.kind, c.relists) })
		})
	}
}

func fillsIndexes(t *testing.T, options []kopf.Option, kind []kopf.ResourceOption, relists bool) {
	cluster := kopftest.Memory(t, kopftest.Objects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, newConfigMap("one", "team", "a"), newConfigMap("two", "team", "b")))
	calls := &steps{}
	run := func(name string, warm bool) (operator *kopftest.Operator, index nameIndex, ready func() error) {
		operator = cluster.RunManager(t, func(mgr manager.Manager) error {
			indexed := kopf.For(&corev1.ConfigMap{}, append(kind, kopf.WithName(name))...)
			index = indexByTeam(indexed)
			indexed.On("handle", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, func(_ context.Context, req *kopf.Request[configMap]) error {
				calls.add(fmt.Sprintf("%s: %s %s", name, req.Reason, req.Object.Name))
				return nil
			}, kopf.Label("team"))
			op := kopf.New(mgr, append(options, indexed, kopf.OnStartup("slow", func(context.Context) error { <-time.After(10 * time.Second); return nil }))...)
			ready = func() error { return op.Readyz(nil) }
			return mgr.Add(op)
		}, func(o *manager.Options) {
			o.LeaderElection, o.LeaderElectionID, o.LeaderElectionNamespace, o.LeaderElectionReleaseOnCancel = true, "replicas", "default", true
			o.Controller.EnableWarmup = &warm
		})
		<-time.After(time.Minute)
		return operator, index, ready
	}
	expect := func(when string, index nameIndex, synced bool, a, b []string) {
		t.Helper()
		got := [][]string{slices.Sorted(slices.Values(index.Get("a"))), slices.Sorted(slices.Values(index.Get("b")))}
		if index.HasSynced() != synced || !slices.Equal(got[0], a) || !slices.Equal(got[1], b) {
			t.Errorf("%s: HasSynced = %t and the names are %v, want %t and [%v %v]", when, index.HasSynced(), got, synced, a, b)
		}
	}
	leader, leading, _ := run("leader", true)
	expect("leader", leading, true, []string{"one"}, []string{"two"})
	waiting, cold, ready := run("cold", false)
	expect("without warm-up", cold, false, nil, nil)
	if err := ready(); err != nil {
		t.Errorf("the replica without warm-up is not ready: %v", err)
	}
	waiting.Stop(t)
	_, warm, ready := run("warm", true)
	expect("with warm-up", warm, true, []string{"one"}, []string{"two"})
	if err := ready(); err != nil {
		t.Errorf("the replica is not ready: %v", err)
	}
	if got := slices.Sorted(slices.Values(calls.take())); !slices.Equal(got, []string{"leader: create one", "leader: create two"}) {
		t.Errorf("calls %q before the takeover, want only those of the leader", got)
	}
	cluster.Create(t, newConfigMap("three", "team", "b"))
	kopftest.Edit(t, cluster, newConfigMap("one"), func(obj configMap) { obj.Labels["team"] = "b" })
	cluster.Delete(t, newConfigMap("two"))
	<-time.After(time.Second)
	expect("after changes", warm, true, nil, []string{"one", "three"})

	leader.Stop(t)
	for range 600 {
		if <-time.After(100 * time.Millisecond); relists && !warm.HasSynced() {
			continue
		}
		expect("during the takeover", warm, true, nil, []string{"one", "three"})
	}
	if got := slices.Sorted(slices.Values(calls.take())); !slices.Equal(got, []string{"leader: create three", "warm: resume one", "warm: resume three"}) {
		t.Errorf("calls %q after the takeover, want those of the next leader", got)
	}
	cluster.Delete(t, newConfigMap("three"))
	<-time.After(time.Minute)
	expect("after the takeover", warm, true, nil, []string{"one"})
}
