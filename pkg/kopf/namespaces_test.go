package kopf_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// texts is a list of texts that is safe for concurrent use.
type texts struct {
	mu  sync.Mutex
	all []string
}

func (l *texts) addf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

// take returns the texts since the last take, sorted.
func (l *texts) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.all)
	joined := strings.Join(l.all, ", ")
	l.all = nil
	return joined
}

func (l *texts) handler(id string) kopf.Handler[configMap] {
	return func(_ context.Context, req *kopf.Request[configMap]) error {
		l.addf("%s %s/%s", id, req.Object.Namespace, req.Object.Name)
		return nil
	}
}

func newNamespace(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		ns.Labels[label] = "true"
	}
	return ns
}

func mapIn(namespace, name string) configMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func expectTexts(t *testing.T, l *texts, want string) {
	t.Helper()
	<-time.After(time.Minute)
	if got := l.take(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithNamespaces_InvalidOptions(t *testing.T) {
	for _, c := range []struct {
		option kopf.Option
		want   string
	}{
		{kopf.WithNamespaces(), "there are no patterns"},
		{kopf.WithNamespaces("team-a", "Team-B"), `"Team-B" can never match`},
		{kopf.WithNamespaceFunc(nil), "WithNamespaceFunc(nil)"},
		{kopf.WithWatchSelector(""), "matches all objects"},
		{kopf.WithWatchSelector("a=b=c"), `WithWatchSelector("a=b=c")`},
	} {
		op := kopf.New(newManager(), kopf.For(&corev1.ConfigMap{}).OnCreate("a", (&texts{}).handler("a")), c.option)
		if err := op.CheckDeclaration(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got the error %v, want one with %q", err, c.want)
		}
	}
}

func TestSetNamespaces_Errors(t *testing.T) {
	op := kopf.New(newManager())
	if err := op.SetNamespaces("a"); err == nil || !strings.Contains(err.Error(), "create it with WithNamespaces") {
		t.Errorf("without WithNamespaces: got error %v, want one with the advice to create the operator with WithNamespaces", err)
	}
	op = kopf.New(newManager(), kopf.WithNamespaces("a"))
	if err := op.SetNamespaces("b", "B"); err == nil || !strings.Contains(err.Error(), `"B" can never match`) {
		t.Errorf("invalid pattern: got error %v, want one that quotes the pattern \"B\"", err)
	}
}

// The scope restricts also related and tracked objects, and reads; cluster-scoped kinds are not restricted (SCOPE-03).
func TestWithNamespaces_RelatedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "owner"), mapIn("two", "owner")))
		seen := &texts{}
		cluster.Run(t, kopf.WithNamespaces("one"),
			kopf.For(&corev1.ConfigMap{}).OnReconcile("track", func(ctx context.Context, req *kopf.Request[configMap]) error {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "tracked"}}
				if err := req.Track(ctx, secret); client.IgnoreNotFound(err) != nil {
					return err
				}
				other := req.Client.Get(ctx, client.ObjectKey{Namespace: "two", Name: "owner"}, &corev1.ConfigMap{})
				all := &corev1.ConfigMapList{}
				if err := req.Client.List(ctx, all); err != nil {
					return err
				}
				seen.addf("%s: %d objects, %v", client.ObjectKeyFromObject(req.Object), len(all.Items), strings.Contains(fmt.Sprint(other), `the operator does not watch namespace "two"`))
				return nil
			}),
			kopf.For(&corev1.Namespace{}).OnCreate("namespace", func(_ context.Context, req *kopf.Request[*corev1.Namespace]) error {
				seen.addf("%s", req.Object.Name)
				return nil
			}))
		expectTexts(t, seen, "one, one/owner: 1 objects, true, two")
		cluster.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "tracked"}})
		expectTexts(t, seen, "one/owner: 1 objects, true")
	})
}

// A handler of a namespace that comes finds all objects of the namespace in the indexes (IDX-16, RUN-04).
func TestWithNamespaces_Indexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one", "in"), newNamespace("two")))
		for _, ns := range []string{"one", "two"} {
			for i := range 20 {
				cluster.Create(t, mapIn(ns, fmt.Sprintf("m%d", i)))
				cluster.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: fmt.Sprintf("s%d", i)}})
			}
		}
		calls := &texts{}
		secrets := kopf.For(&corev1.Secret{})
		byNamespace := kopf.IndexBy(secrets, "by-namespace", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]string, error) {
			return map[string]string{req.Object.Namespace: req.Object.Name}, nil
		})
		operator := cluster.Run(t, secrets, kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return ns.Labels["in"] != "" }),
			kopf.For(&corev1.ConfigMap{}).OnCreate("count", func(_ context.Context, req *kopf.Request[configMap]) error {
				calls.addf("%s %d", req.Object.Namespace, len(byNamespace.Get(req.Object.Namespace)))
				return nil
			}))
		expectTexts(t, calls, strings.TrimSuffix(strings.Repeat("one 20, ", 20), ", "))
		expectNamespaces(t, 0, 1)
		operator.InjectFaults(kopftest.Fault{Verb: "list", Resource: "secrets", Times: 1, Delay: 10 * time.Second})
		kopftest.Edit(t, cluster, newNamespace("two"), func(ns *corev1.Namespace) { ns.Labels = map[string]string{"in": "true"} })
		<-time.After(time.Second)
		expectNamespaces(t, 1, 1)
		expectTexts(t, calls, strings.TrimSuffix(strings.Repeat("two 20, ", 20), ", "))
		kopftest.Edit(t, cluster, newNamespace("one"), func(ns *corev1.Namespace) { ns.Labels = nil })
		<-time.After(time.Minute)
		if one, two := len(byNamespace.Get("one")), len(byNamespace.Get("two")); one != 0 || two != 20 {
			t.Errorf("the index has %d objects of the namespace that was left, and %d of the other, want 0 and 20", one, two)
		}
	})
}

// expectNamespaces checks the metric of namespaces that are starting and served.
func expectNamespaces(t *testing.T, starting, served float64) {
	t.Helper()
	got := gauges(t, "kopf_namespaces")
	if got["starting"] != starting || got["served"] != served || got["leaving"] != 0 {
		t.Errorf("kopf_namespaces is %v, want %v starting and %v served", got, starting, served)
	}
}

// gauges returns the values of a gauge with one label, by the label.
func gauges(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// The test kit does not wait for objects that the operator does not handle.
func TestWithNamespaces_Quiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "a"), mapIn("two", "b"), mapIn("one", "c")))
		kopftest.Edit(t, cluster, mapIn("one", "a"), func(obj configMap) { obj.Labels = map[string]string{"handled": ""} })
		calls := &texts{}
		operator := cluster.Run(t, kopf.WithNamespaces("one"), kopf.WithWatchSelector("handled"), kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")))
		operator.RunUntilQuiet(t)
		if got := calls.take(); got != "create one/a" {
			t.Errorf("got the calls %q, want create one/a", got)
		}
	})
}

// A namespace that is being deleted is left when nothing blocks its deletion any more (SCOPE-09).
func TestWithNamespaces_Terminating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := newNamespace("held")
		held.Finalizers = []string{"example.com/test"}
		cluster := kopftest.Memory(t, kopftest.Objects(held, mapIn("held", "a")))
		calls := &texts{}
		cluster.Run(t, kopf.WithNamespaces("h*"), kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")).OnUpdate("update", calls.handler("update")))
		expectTexts(t, calls, "create held/a")
		edits := 0
		edit := func(want string) {
			t.Helper()
			edits++
			kopftest.Edit(t, cluster, mapIn("held", "a"), func(obj configMap) { obj.Data = map[string]string{"edit": fmt.Sprint(edits)} })
			expectTexts(t, calls, want)
		}
		setCondition := func(status corev1.ConditionStatus) {
			t.Helper()
			kopftest.Edit(t, cluster, newNamespace("held"), func(ns *corev1.Namespace) {
				ns.Status.Conditions = []corev1.NamespaceCondition{{Type: corev1.NamespaceContentRemaining, Status: status}}
			})
			<-time.After(time.Minute) // the operator waits for the deletions of the objects
		}
		cluster.Delete(t, newNamespace("held"))
		edit("update held/a")
		setCondition(corev1.ConditionTrue)
		edit("update held/a")
		setCondition(corev1.ConditionFalse)
		edit("")
	})
}

// If Namespaces may be listed, but not watched, new ones are noticed by listing them again (SCOPE-11). If they may not be listed, names without wildcards are
// handled (SCOPE-10), and the others when the permission is granted.
func TestWithNamespaces_WithoutPermissions(t *testing.T) {
	watches := func(r *http.Request) bool { return r.URL.Query().Get("watch") != "" }
	all := func(*http.Request) bool { return true }
	for name, test := range map[string]struct {
		denies       func(*http.Request) bool
		first, later string
	}{
		"to watch":         {watches, "create a1/m, create b/m", "create a2/m"},
		"to list or watch": {all, "create b/m", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("a1"), newNamespace("b"), mapIn("a1", "m"), mapIn("b", "m")))
				requests := intercept(cluster, func(r *http.Request) interception {
					if strings.HasSuffix(r.URL.Path, "/namespaces") && test.denies(r) {
						return interception{code: http.StatusForbidden}
					}
					return interception{}
				})
				calls := &texts{}
				cluster.Run(t, kopf.WithNamespaces("a*", "b"), kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")))
				expectTexts(t, calls, test.first)
				cluster.Create(t, newNamespace("a2"))
				cluster.Create(t, mapIn("a2", "m"))
				<-time.After(5 * time.Minute)
				expectTexts(t, calls, test.later)
				requests.stop()
				cluster.Create(t, newNamespace("a3"))
				cluster.Create(t, mapIn("a3", "m"))
				<-time.After(5 * time.Minute)
				if got := calls.take(); !strings.HasSuffix(got, "create a3/m") || test.later == "" && !strings.HasPrefix(got, "create a1/m, create a2/m") {
					t.Errorf("after the permissions were granted: got the calls %q, want create a3/m as the last one, and a1/m and a2/m before it unless they are handled later", got)
				}
			})
		})
	}
}

// A write that is pending when its namespace is left, and whose object has been deleted in the meantime, does not hold the namespace.
func TestWithNamespaces_DeletedWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one", "in"), mapIn("one", "a")))
		calls := &texts{}
		operator := cluster.Run(t, kopf.WithNamespaceFunc(func(ns *corev1.Namespace) bool { return ns.Labels["in"] != "" }),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")).OnUpdate("update", calls.handler("update")))
		expectTexts(t, calls, "create one/a")
		operator.InjectFaults(kopftest.Fault{Verb: "patch", Resource: "configmaps", Times: 12, Code: http.StatusInternalServerError})
		kopftest.Edit(t, cluster, mapIn("one", "a"), func(obj configMap) { obj.Data = map[string]string{"edit": "1"} })
		<-time.After(50 * time.Millisecond)
		kopftest.Edit(t, cluster, newNamespace("one"), func(ns *corev1.Namespace) { ns.Labels = nil })
		<-time.After(50 * time.Millisecond)
		cluster.Delete(t, mapIn("one", "a"))
		expectTexts(t, calls, "update one/a")
		cluster.Create(t, mapIn("one", "b"))
		kopftest.Edit(t, cluster, newNamespace("one"), func(ns *corev1.Namespace) { ns.Labels = map[string]string{"in": "true"} })
		expectTexts(t, calls, "create one/b")
	})
}

// The operator of a developer and the deployed one share a cluster: each object is handled by one of them, also after it has changed its label.
func TestWithWatchSelector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		theirs, mine := mapIn("default", "theirs"), mapIn("default", "mine")
		mine.Labels = map[string]string{"developer": "alice"}
		cluster := kopftest.Memory(t, kopftest.Objects(theirs, mine))
		calls := &texts{}
		flags := flag.NewFlagSet("test", flag.PanicOnError)
		watched := kopf.WatchSelectorFlag(flags)
		if err := flags.Parse([]string{"--watch-selector=developer=alice"}); err != nil {
			t.Fatal(err)
		}
		handlers := func(who string) kopf.Option {
			return kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler(who+" creates")).OnUpdate("update", calls.handler(who+" updates"))
		}
		cluster.Run(t, handlers("alice"), watched)
		cluster.Run(t, handlers("deployed"), kopf.WithWatchSelector("!developer"))
		expectTexts(t, calls, "alice creates default/mine, deployed creates default/theirs")
		kopftest.Edit(t, cluster, mapIn("default", "theirs"), func(obj configMap) {
			obj.Labels, obj.Data = map[string]string{"developer": "alice"}, map[string]string{"a": "b"}
		})
		expectTexts(t, calls, "alice updates default/theirs")
	})
}
