package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// An interceptor delays requests, answers them with errors, or sends them to another server.
type interceptor struct {
	next     http.RoundTripper
	mu       sync.Mutex
	change   func(r *http.Request) interception
	requests []string
}

type interception struct {
	code  int // of the error; 0 if there is none
	delay time.Duration
	next  http.RoundTripper // nil for the usual one
}

// intercept changes the requests of all operators that are started later.
func intercept(c *kopftest.Cluster, change func(r *http.Request) interception) *interceptor {
	i := &interceptor{next: c.Config.Transport, change: change}
	c.Config.Transport = i
	return i
}

// interceptPaths intercepts requests whose path contains a text. Requests for the current version of a kind pass.
func interceptPaths(c *kopftest.Cluster, text string, then interception) *interceptor {
	return intercept(c, func(r *http.Request) interception {
		if strings.Contains(r.URL.Path, text) && r.URL.Query().Get("limit") != "1" {
			return then
		}
		return interception{}
	})
}

func (i *interceptor) set(change func(r *http.Request) interception) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.change = change
}

func (i *interceptor) stop() { i.set(func(*http.Request) interception { return interception{} }) }

// RoundTrip implements [http.RoundTripper].
func (i *interceptor) RoundTrip(r *http.Request) (*http.Response, error) {
	i.mu.Lock()
	i.requests = append(i.requests, r.Method+" "+r.URL.Path)
	then := i.change(r)
	i.mu.Unlock()
	select {
	case <-time.After(then.delay):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	switch {
	case then.code != 0:
		reason := map[int]metav1.StatusReason{
			http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusUnauthorized: metav1.StatusReasonUnauthorized,
			http.StatusInternalServerError: metav1.StatusReasonInternalError,
		}[then.code]
		text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"injected"}`, reason, then.code)
		return &http.Response{
			StatusCode: then.code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)),
		}, nil
	case then.next != nil:
		return then.next.RoundTrip(r)
	}
	return i.next.RoundTrip(r)
}

// runOperator starts an operator, and returns it.
func runOperator(t *testing.T, c *kopftest.Cluster, opts ...kopf.Option) *kopf.Operator {
	t.Helper()
	return runOperatorWith(t, c, func(*manager.Options) {}, opts...)
}

func runOperatorWith(t *testing.T, c *kopftest.Cluster, change func(*manager.Options), opts ...kopf.Option) (op *kopf.Operator) {
	t.Helper()
	c.RunManager(t, func(mgr manager.Manager) error {
		op = kopf.New(mgr, opts...)
		return mgr.Add(op)
	}, change)
	return op
}

func setNamespaces(t *testing.T, op *kopf.Operator, patterns ...string) {
	t.Helper()
	if err := op.SetNamespaces(patterns...); err != nil {
		t.Fatal(err)
	}
}

func secretIn(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// indexedSecrets returns the kind of Secrets with an index of their names by namespace.
func indexedSecrets() (*kopf.Resource[*corev1.Secret], *kopf.Index[string, string]) {
	secrets := kopf.For(&corev1.Secret{})
	return secrets, kopf.IndexBy(secrets, "by-namespace", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]string, error) {
		return map[string]string{req.Object.Namespace: req.Object.Name}, nil
	})
}

// listsMaps adds the number of ConfigMaps that a handler can list.
func listsMaps(seen *texts) kopf.Option {
	return kopf.For(&corev1.ConfigMap{}).OnReconcile("list", func(ctx context.Context, req *kopf.Request[configMap]) error {
		all := &corev1.ConfigMapList{}
		err := req.Client.List(ctx, all)
		seen.addf("%s lists %d, %v", client.ObjectKeyFromObject(req.Object), len(all.Items), err)
		return nil
	})
}

// Lists contain a namespace again when its objects may be listed again.
func TestWithNamespaces_PermissionLaterForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "a"), mapIn("two", "b")))
		requests := interceptPaths(cluster, "/namespaces/two/configmaps", interception{code: http.StatusUnauthorized})
		seen := &texts{}
		runOperator(t, cluster, kopf.WithNamespaces("one", "two"), listsMaps(seen))
		expectTexts(t, seen, "one/a lists 1, <nil>")
		requests.stop()
		<-time.After(5 * time.Minute)
		expectTexts(t, seen, "two/b lists 2, <nil>")
	})
}

// A kind that may not be listed in a namespace hides no objects of other kinds.
func TestWithNamespaces_ReadsWithOneKindDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "a"), mapIn("two", "b")))
		interceptPaths(cluster, "/namespaces/two/secrets", interception{code: http.StatusForbidden})
		seen := &texts{}
		secrets, _ := indexedSecrets()
		runOperator(t, cluster, kopf.WithNamespaces("one", "two"), secrets, listsMaps(seen))
		expectTexts(t, seen, "one/a lists 2, <nil>, two/b lists 2, <nil>")
	})
}

// Neither a kind that is denied nor an old list of another API server lets handlers begin before the index of a namespace is complete. This holds for event
// handlers, too.
func TestWithNamespaces_IndexIsComplete(t *testing.T) {
	for _, name := range []string{"a kind is denied", "the list is old", "event handlers"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two")))
				server, ok := cluster.Config.Transport.(*apiserver.Server)
				if !ok {
					t.Fatal("the cluster has no server")
				}
				replica := server.Replica()
				replica.RefuseWatchLists()
				empty := server.CurrentVersion()
				for i := range 5 {
					cluster.Create(t, secretIn("two", fmt.Sprint("s", i)))
				}
				cluster.Create(t, mapIn("two", "b"))
				intercept(cluster, func(r *http.Request) interception {
					isSecrets, isVersion := strings.Contains(r.URL.Path, "/namespaces/two/secrets"), r.URL.Query().Get("limit") == "1"
					switch {
					case strings.Contains(r.URL.Path, "/namespaces/two/services") && name == "a kind is denied":
						return interception{code: http.StatusForbidden}
					case isSecrets && name == "the list is old":
						return interception{next: replica}
					case isSecrets && !isVersion:
						return interception{delay: 3 * time.Second}
					}
					return interception{}
				})
				seen := &texts{}
				secrets, byNamespace := indexedSecrets()
				count := func(_ context.Context, req *kopf.Request[configMap]) error {
					seen.addf("%d", len(byNamespace.Get(req.Object.Namespace)))
					return nil
				}
				maps := kopf.For(&corev1.ConfigMap{})
				if name == "event handlers" {
					maps.OnEvent("count", count)
				} else {
					maps.OnCreate("count", count)
				}
				op := runOperator(t, cluster, kopf.WithNamespaces("one"), secrets, maps,
					kopf.For(&corev1.Service{}).OnCreate("service", func(context.Context, *kopf.Request[*corev1.Service]) error { return nil }))
				expectTexts(t, seen, "")
				replica.LagAt(empty)
				go func() {
					<-time.After(5 * time.Second)
					replica.CatchUp()
				}()
				setNamespaces(t, op, "one", "two")
				expectTexts(t, seen, "5")
			})
		})
	}
}

// A namespace that is no longer wanted before it was entered is not watched, and can be entered again.
func TestWithNamespaces_LeftWhileEntering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "a"), mapIn("two", "b")))
		calls := &texts{}
		requests := intercept(cluster, func(r *http.Request) interception {
			if strings.Contains(r.URL.Path, "/namespaces/two/configmaps") && r.URL.Query().Get("limit") == "1" {
				return interception{delay: 5 * time.Second} // the request for the current version
			}
			return interception{}
		})
		op := runOperator(t, cluster, kopf.WithNamespaces("one"), kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")))
		expectTexts(t, calls, "create one/a")
		setNamespaces(t, op, "one", "two")
		<-time.After(time.Second)
		setNamespaces(t, op, "one")
		expectTexts(t, calls, "")
		requests.stop()
		setNamespaces(t, op, "one", "two")
		expectTexts(t, calls, "create two/b")
	})
}

// A read of a kind that is not handled ends, although its cache never contains the objects of a namespace.
func TestWithNamespaces_ReadsEnd(t *testing.T) {
	denied, delayed := interception{code: http.StatusForbidden}, interception{delay: 10 * time.Second}
	for name, test := range map[string]struct {
		then   interception
		leaves bool
		read   func(ctx context.Context, c client.Client) error
		fails  bool
	}{
		"list with a denied namespace": {denied, false, func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.SecretList{}) }, false},
		"get in a namespace that is left": {delayed, true, func(ctx context.Context, c client.Client) error {
			return c.Get(ctx, client.ObjectKey{Namespace: "two", Name: "s"}, &corev1.Secret{})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("one", "a")))
				interceptPaths(cluster, "/namespaces/two/secrets", test.then)
				seen := &texts{}
				op := runOperator(t, cluster, kopf.WithNamespaces("one", "two"),
					kopf.For(&corev1.ConfigMap{}).OnReconcile("read", func(ctx context.Context, req *kopf.Request[configMap]) error {
						seen.addf("fails: %t", test.read(ctx, req.Client) != nil)
						return nil
					}))
				<-time.After(2 * time.Second)
				if test.leaves {
					setNamespaces(t, op, "one")
				}
				expectTexts(t, seen, fmt.Sprintf("fails: %t", test.fails))
			})
		})
	}
}

// An index function that waits for a read in the namespace that is left does not block other namespaces.
func TestWithNamespaces_IndexFunctionReadsWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), newNamespace("three"), mapIn("three", "c")))
		interceptPaths(cluster, "/namespaces/two/services", interception{delay: 10 * time.Second})
		seen := &texts{}
		secrets := kopf.For(&corev1.Secret{})
		kopf.IndexBy(secrets, "read", func(ctx context.Context, req *kopf.Request[*corev1.Secret]) (map[string]string, error) {
			err := req.Client.Get(ctx, client.ObjectKey{Namespace: req.Object.Namespace, Name: "x"}, &corev1.Service{})
			return map[string]string{"a": "b"}, client.IgnoreNotFound(err)
		})
		op := runOperator(t, cluster, kopf.WithNamespaces("one", "two"), secrets, kopf.For(&corev1.ConfigMap{}).OnReconcile("x", seen.handler("x")))
		<-time.After(time.Minute)
		cluster.Create(t, secretIn("two", "s"))
		<-time.After(time.Second)
		setNamespaces(t, op, "one")
		<-time.After(time.Minute)
		setNamespaces(t, op, "one", "three")
		expectTexts(t, seen, "x three/c")
	})
}

// An index contains no object of a namespace that was left while its function was running.
func TestWithNamespaces_IndexFunctionWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), secretIn("two", "s")))
		var isSlow atomic.Bool
		secrets := kopf.For(&corev1.Secret{})
		index := kopf.IndexBy(secrets, "by-namespace", func(_ context.Context, req *kopf.Request[*corev1.Secret]) (map[string]string, error) {
			if isSlow.Load() {
				<-time.After(time.Second)
			}
			return map[string]string{req.Object.Namespace: req.Object.Name}, nil
		})
		op := runOperator(t, cluster, kopf.WithNamespaces("one", "two"), secrets)
		<-time.After(time.Minute)
		if n := len(index.Get("two")); n != 1 {
			t.Fatalf("the index has %d objects, want 1", n)
		}
		isSlow.Store(true)
		kopftest.Edit(t, cluster, secretIn("two", "s"), func(s *corev1.Secret) { s.Labels = map[string]string{"a": "b"} })
		<-time.After(500 * time.Millisecond)
		setNamespaces(t, op, "one")
		<-time.After(time.Minute)
		if n := len(index.Get("two")); n != 0 {
			t.Errorf("the index has %d objects of a namespace that was left, want none", n)
		}
	})
}

// With names only, no request concerns the whole cluster, even if the first list is slow.
func TestWithNamespaces_NoRequestsForTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), secretIn("one", "s")))
		requests := intercept(cluster, func(r *http.Request) interception {
			if r.URL.Query().Get("limit") == "1" {
				return interception{delay: 300 * time.Millisecond}
			}
			return interception{}
		})
		secrets, index := indexedSecrets()
		runOperator(t, cluster, kopf.WithNamespaces("one"), secrets)
		<-time.After(time.Minute)
		if n := len(index.Get("one")); n != 1 {
			t.Errorf("the index has %d objects, want 1", n)
		}
		requests.mu.Lock()
		defer requests.mu.Unlock()
		for _, request := range requests.requests {
			if strings.HasSuffix(request, "/v1/secrets") || strings.HasSuffix(request, "/v1/namespaces") {
				t.Errorf("got the request %s for the whole cluster, want only requests for namespaces", request)
			}
		}
	})
}

// A failingMapper knows no kinds while it fails.
type failingMapper struct {
	meta.RESTMapper
	fails atomic.Bool
}

// RESTMapping implements [meta.RESTMapper].
func (m *failingMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if m.fails.Load() {
		return nil, errors.New("discovery failed")
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}

// A namespace that could not be entered, and that was wanted again before the retry, is entered once and stays.
func TestWithNamespaces_RetryAfterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("two", "b")))
		mapper := &failingMapper{RESTMapper: cluster.Client.RESTMapper()}
		seen := &texts{}
		op := runOperatorWith(t, cluster, func(o *manager.Options) { o.Cache.Mapper = mapper }, kopf.WithNamespaces("one"),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", seen.handler("create")).Daemon("daemon", daemons.Daemon{}, func(ctx context.Context, _ *kopf.Request[configMap]) error {
				seen.addf("daemon")
				<-ctx.Done()
				seen.addf("daemon stops: %v", context.Cause(ctx))
				return nil
			}))
		<-time.After(time.Minute)
		mapper.fails.Store(true)
		setNamespaces(t, op, "one", "two")
		<-time.After(2 * time.Second)
		mapper.fails.Store(false)
		setNamespaces(t, op, "one")
		<-time.After(2 * time.Second)
		setNamespaces(t, op, "one", "two")
		expectTexts(t, seen, "create two/b, daemon")
		expectTexts(t, seen, "")
	})
}

// The operator is not ready before it knows the namespaces, and the function of WithNamespaceFunc selects none before that.
func TestWithNamespaces_NotReady(t *testing.T) {
	for name, test := range map[string]struct {
		code       int
		option     kopf.Option
		want, call string
	}{
		"a failing server":       {http.StatusInternalServerError, kopf.WithNamespaces("o*"), "not listed the Namespaces yet", "create one/a"},
		"function without right": {http.StatusForbidden, kopf.WithNamespaceFunc(func(*corev1.Namespace) bool { return true }), "may not list Namespaces", "create one/a"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), mapIn("one", "a")))
				requests := intercept(cluster, func(r *http.Request) interception {
					if strings.HasSuffix(r.URL.Path, "/namespaces") {
						return interception{code: test.code}
					}
					return interception{}
				})
				calls := &texts{}
				op := runOperator(t, cluster, kopf.WithNamespaces("one"), test.option, kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")))
				expectTexts(t, calls, "")
				if err := op.Readyz(nil); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("Readyz returned %v, want an error with %q", err, test.want)
				}
				requests.stop()
				expectTexts(t, calls, test.call)
				if err := op.Readyz(nil); err != nil {
					t.Errorf("Readyz = %v, want nil", err)
				}
			})
		})
	}
}

// The selector of WithWatchSelector is combined with those of the cache options.
func TestWithWatchSelector_CacheOptions(t *testing.T) {
	ab := labels.SelectorFromSet(labels.Set{"a": "b"})
	for name, test := range map[string]struct {
		option kopf.Option // may be nil
		cache  cache.Options
	}{
		"the default":             {nil, cache.Options{DefaultLabelSelector: ab}},
		"the default, and a kind": {nil, cache.Options{DefaultLabelSelector: ab, ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {}}}},
		"a default namespace":     {nil, cache.Options{DefaultNamespaces: map[string]cache.Config{"one": {LabelSelector: ab}}}},
		"a namespace of the kind": {nil, cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{"one": {LabelSelector: ab}}},
		}}},
		"fields of a namespace": {kopf.WithNamespaces("one"), cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", "both")}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []client.Object{newNamespace("one")}
				for name, labels := range map[string]map[string]string{"selected": {"developer": "alice"}, "default": {"a": "b"}, "both": {"developer": "alice", "a": "b"}} {
					m := mapIn("one", name)
					m.Labels = labels
					objects = append(objects, m)
				}
				cluster := kopftest.Memory(t, kopftest.Objects(objects...))
				calls := &texts{}
				options := []kopf.Option{
					kopf.WithWatchSelector("developer=alice"), kopf.WithKindCaches(test.cache), kopf.For(&corev1.ConfigMap{}).OnCreate("create", calls.handler("create")),
				}
				if test.option != nil {
					options = append(options, test.option)
				}
				runOperator(t, cluster, options...)
				expectTexts(t, calls, "create one/both")
			})
		})
	}
}

// An optional delete handler is called for the objects of a namespace that no longer exists, even if the workers were busy.
func TestWithNamespaces_OptionalDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("two"), mapIn("two", "a")))
		seen := &texts{}
		runOperator(t, cluster, kopf.WithNamespaces("t*"), kopf.For(&corev1.ConfigMap{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).
			OnCreate("create", func(ctx context.Context, req *kopf.Request[configMap]) error {
				if req.Object.Name == "slow" {
					<-time.After(10 * time.Second)
				}
				return seen.handler("create")(ctx, req)
			}).OnDelete("delete", seen.handler("delete"), kopf.Optional()))
		expectTexts(t, seen, "create two/a")
		cluster.Create(t, mapIn("two", "slow"))
		<-time.After(time.Second)
		cluster.Delete(t, mapIn("two", "slow"))
		cluster.Delete(t, mapIn("two", "a"))
		cluster.Delete(t, newNamespace("two"))
		<-time.After(5 * time.Minute)
		expectTexts(t, seen, "create two/slow, delete two/a, delete two/slow")
	})
}

// A kind that disappears while a namespace is entered does not block the other kinds.
func TestWithNamespaces_KindDisappearsWhileEntering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.Objects(newNamespace("one"), newNamespace("two"), mapIn("two", "b")))
		served := newServedKinds(cluster)
		requests := intercept(cluster, func(*http.Request) interception { return interception{} })
		seen := &texts{}
		op := runOperator(t, cluster, kopf.WithNamespaces("one"),
			kopf.For(&appsv1.Deployment{}, kopf.WhenServed()).OnCreate("create", func(context.Context, *kopf.Request[deployment]) error { return nil }),
			kopf.For(&corev1.ConfigMap{}).OnCreate("create", seen.handler("create")))
		<-time.After(time.Minute)
		requests.set(func(r *http.Request) interception {
			if strings.Contains(r.URL.Path, "/namespaces/two/deployments") {
				return interception{code: http.StatusInternalServerError}
			}
			return interception{}
		})
		setNamespaces(t, op, "one", "two")
		<-time.After(2 * time.Second)
		served.hide("Deployment")
		<-time.After(5 * time.Minute)
		expectTexts(t, seen, "create two/b")
	})
}
