package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

type (
	configMap = *corev1.ConfigMap
	request   = *framework.Request[configMap]
	option    = framework.Option
	resource  = *framework.Resource[configMap]
)

const hour = time.Hour

var errBusy = errors.New("the backend is busy")

func succeed(context.Context, request) error { return nil }
func busy(context.Context, request) error    { return framework.Temporary(errBusy, hour) }
func fail(context.Context, request) error    { return framework.Permanent(errors.New("no such size")) }

func ignoreEvent(context.Context, request, *corev1.Event) error { return nil }
func busyForEvent(context.Context, request, *corev1.Event) error {
	return framework.Temporary(errBusy, hour)
}

func configMaps() resource { return framework.For(&corev1.ConfigMap{}) }

// whyCase is an object for which a handler is not called, or is called, with the explanation.
type whyCase struct {
	name string
	// earlier is an operator that handles the object first and stops.
	earlier func() []option
	options func() []option
	object  corev1.ConfigMap
	// before changes the object before the operator starts, and act after it has handled the object.
	before, act func(*testing.T, *kopftest.Cluster, configMap)
	handler     string
	cause       string
	state       explain.State
	// why and text are in the explanation of the handler and of the object.
	why, text string
	// records are in the explanation from the data on the object alone.
	records []string
}

// kubeconfig writes a kubeconfig for a config, and sets it for the command.
func kubeconfig(t *testing.T, config *rest.Config) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken, Impersonate: config.Impersonate.UserName}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*c, file))
	t.Setenv("KUBECONFIG", file)
}

// A pageManager is a manager that keeps the handler of the status page.
type pageManager struct {
	manager.Manager
	page http.Handler
}

func (m *pageManager) AddMetricsServerExtraHandler(path string, handler http.Handler) error {
	if path == statuspage.Path {
		m.page = handler
	}
	return nil
}

// serve runs an operator with its status page and returns the operator and the URL of the page.
func serve(t *testing.T, cluster *kopftest.Cluster, options ...option) (operator *framework.Operator, running *kopftest.Operator, url string) {
	t.Helper()
	var host *pageManager
	running = cluster.RunManager(t, func(mgr manager.Manager) error {
		host = &pageManager{Manager: mgr}
		operator = framework.New(host, append(options, framework.WithStatusPage())...)
		return mgr.Add(operator)
	})
	server := httptest.NewTLSServer(host.page)
	t.Cleanup(server.Close)
	return operator, running, server.URL
}

func edit(key, value string) func(*testing.T, *kopftest.Cluster, configMap) {
	return func(t *testing.T, cluster *kopftest.Cluster, obj configMap) {
		patch, err := json.Marshal(map[string]any{"data": map[string]string{key: value}})
		must(t, err)
		must(t, cluster.Client.Patch(t.Context(), obj, client.RawPatch("application/merge-patch+json", patch)))
	}
}

// postEvent creates a Kubernetes Event about the object.
func postEvent(t *testing.T, cluster *kopftest.Cluster, obj configMap) {
	cluster.Create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "orders.1"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: obj.Namespace, Name: obj.Name, UID: obj.UID},
		Type:           corev1.EventTypeWarning, Reason: "Full", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	})
}

func remove(t *testing.T, cluster *kopftest.Cluster, obj configMap) { cluster.Delete(t, obj) }

func data(key, value string) corev1.ConfigMap {
	return corev1.ConfigMap{Data: map[string]string{key: value}}
}

func labeled(key, value string) corev1.ConfigMap {
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}, Annotations: map[string]string{key: value}}}
}

func one(r resource) func() []option { return func() []option { return []option{r} } }

func whyCases() []whyCase {
	created := func() []option { return []option{configMaps().OnCreate("first", succeed)} }
	foreign := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"example.com/backup"}}}
	isProd := func(request) bool { return false }
	panics := func(request) bool { panic("no color") }
	return []whyCase{
		// The rows of the cause table.
		{
			name: "create, waiting for a retry", options: one(configMaps().OnCreate("make", busy)), handler: "make",
			cause: "create", state: explain.Waiting, why: "last error: the backend is busy", records: []string{"create:", "make", "waiting", "the backend is busy"},
		},
		{
			name: "update", options: one(configMaps().OnUpdate("change", busy)), object: data("size", "1"), act: edit("size", "2"), handler: "change",
			cause: "update", state: explain.Waiting, why: "last error: the backend is busy", text: "(data.size)", records: []string{"update:", "data.size", "waiting"},
		},
		{
			name: "delete", options: one(configMaps().OnDelete("drop", busy)), act: remove, handler: "drop",
			cause: "delete", state: explain.Waiting, why: "last error: the backend is busy", records: []string{"delete:", "drop", "waiting"},
		},
		{
			name: "resume", earlier: created, options: one(configMaps().OnResume("check", busy)), handler: "check",
			cause: "resume", state: explain.Waiting, why: "last error: the backend is busy", records: []string{"resume:", "check", "waiting"},
		},
		{
			name: "nothing has changed", options: one(configMaps().OnUpdate("change", busy)), handler: "change",
			cause: "noop", state: explain.NotSelected, why: "there is no change for it", records: []string{"nothing has changed"},
		},
		{
			name: "deletion without the operator", options: one(configMaps().OnUpdate("change", busy)), object: foreign, act: remove, handler: "change",
			cause: "free", state: explain.NotSelected, text: "held by the finalizers of other controllers: example.com/backup",
			records: []string{"does not need it", "held by the finalizers of other controllers: example.com/backup"},
		},
		{
			name: "deletion after the operator has finished", options: one(configMaps().OnDelete("drop", succeed)), object: foreign, act: remove, handler: "drop",
			cause: "free", state: explain.NotSelected, text: "held by the finalizers of other controllers: example.com/backup", records: []string{"example.com/backup"},
		},
		// The filters.
		{
			name: "a label", options: one(configMaps().OnCreate("make", busy, framework.Label("tier", filter.Equal("gold")))), object: labeled("tier", "silver"), handler: "make",
			cause: "create", state: explain.Filtered, why: `metadata.labels["tier"] does not match: "silver", wanted Equal(gold)`, records: []string{"filters"},
		},
		{
			name: "a missing label", options: one(configMaps().OnCreate("make", busy, framework.Label("tier"))), handler: "make",
			cause: "create", state: explain.Filtered, why: `metadata.labels["tier"] does not match: there is no value, wanted Present`,
		},
		{
			name: "an annotation: its value is not shown", options: one(configMaps().OnCreate("make", busy, framework.Annotation("tier", filter.Equal("gold")))), object: labeled("tier", "silver"),
			handler: "make", cause: "create", state: explain.Filtered, why: `metadata.annotations["tier"] does not match`,
		},
		{
			name: "an owner", options: one(configMaps().OnCreate("make", busy, framework.OwnedBy(&corev1.Pod{}))), handler: "make",
			cause: "create", state: explain.Filtered, why: "no owner of the wanted kind",
		},
		{
			name: "the value of a field", options: one(configMaps().OnCreate("make", busy, framework.Field("data.size", filter.Equal("1")))), object: data("size", "7"), handler: "make/data.size",
			cause: "create", state: explain.Filtered, why: `the field data.size does not match: "7", wanted Equal(1)`,
		},
		{
			name: "an unchanged field", options: one(configMaps().OnUpdate("change", busy, framework.Field("data.size")).OnUpdate("other", busy)), object: data("size", "7"), act: edit("color", "red"),
			handler: "change/data.size", cause: "update", state: explain.NotSelected, why: `the field data.size has not changed: "7"`,
		},
		{
			name: "the old value of a field", options: one(configMaps().OnUpdate("change", busy, framework.Field("data.size", filter.From("1"))).OnUpdate("other", busy)), object: data("size", "7"),
			act: edit("size", "8"), handler: "change/data.size", cause: "update", state: explain.NotSelected, why: `changed from another value than wanted: "7"`,
		},
		{
			name: "the new value of a field", options: one(configMaps().OnUpdate("change", busy, framework.Field("data.size", filter.To("1"))).OnUpdate("other", busy)), object: data("size", "7"),
			act: edit("size", "8"), handler: "change/data.size", cause: "update", state: explain.NotSelected, why: `changed to another value than wanted: "8"`,
		},
		{
			name: "a predicate", options: one(configMaps().When(isProd).OnCreate("make", busy)), handler: "make",
			cause: "create", state: explain.Filtered, why: "the When function of the handler returned false",
		},
		{
			name: "a predicate that panics", options: one(configMaps().When(panics).OnCreate("make", busy)), handler: "make",
			cause: "create", state: explain.Filtered, why: "a filter of the handler panicked",
		},
		{
			name: "another reason", options: one(configMaps().OnCreate("make", busy).OnUpdate("change", busy)), handler: "change",
			cause: "create", state: explain.NotSelected, why: "it is for update, not for create",
		},
		{
			name: "a resume handler after the resume", earlier: created, options: one(configMaps().OnResume("check", succeed).OnUpdate("change", busy)), act: edit("size", "2"), handler: "check",
			cause: "update", state: explain.NotSelected, why: "this process has already handled the object",
		},
		{
			name: "a resume handler for an object that is being deleted", earlier: func() []option { return []option{configMaps().OnDelete("drop", busy)} },
			options: one(configMaps().OnDelete("drop", busy).OnResume("check", busy)), handler: "check",
			before: remove, cause: "delete", state: explain.NotSelected, why: "the object is being deleted",
		},
		// The delays.
		{
			name: "after another handler", options: one(configMaps().OnCreate("make", busy).OnCreate("announce", succeed, framework.After("make"))), handler: "announce",
			cause: "create", state: explain.Blocked, why: `it comes after "make"`, records: []string{"make", "waiting"},
		},
		{
			name: "a permanent failure", options: one(configMaps().OnCreate("make", fail).OnCreate("other", busy)), handler: "make",
			cause: "create", state: explain.Failed, why: "last error: no such size", records: []string{"make", "failed", "no such size"},
		},
		{
			name: "after another handler that has failed", options: one(configMaps().OnCreate("make", fail).OnCreate("announce", succeed, framework.After("make")).OnCreate("other", busy)), handler: "announce",
			cause: "create", state: explain.Failed, why: `it comes after "make", which has failed`, records: []string{"announce", "failed"},
		},
		{
			name: "a success", options: one(configMaps().OnCreate("make", succeed).OnCreate("other", busy)), handler: "make",
			cause: "create", state: explain.Succeeded, records: []string{"make", "succeeded"},
		},
		{
			name: "a sub-handler", options: one(configMaps().OnCreate("make", func(_ context.Context, req request) error {
				req.Sub("part", busy)
				return nil
			})), handler: "make/part",
			cause: "create", state: explain.Waiting, why: "last error: the backend is busy", records: []string{"part", "waiting"},
		},
		{
			name: "the parent of a sub-handler", options: one(configMaps().OnCreate("make", func(_ context.Context, req request) error {
				req.Sub("part", busy)
				return nil
			})), handler: "make",
			cause: "create", state: explain.Waiting, why: "it waits for its sub-handlers",
		},
		// Handlers without a cause.
		{
			name: "a reconcile handler that waits", options: one(configMaps().OnReconcile("apply", busy)), handler: "apply",
			cause: "none", state: explain.Waiting, why: "last error: the backend is busy",
		},
		{
			name: "a reconcile handler", options: one(configMaps().OnReconcile("apply", succeed)), handler: "apply",
			cause: "none", state: explain.Active, why: "it is called when the object changes",
		},
		{
			name: "an event handler", options: one(configMaps().OnEvent("see", succeed, framework.Label("tier"))), handler: "see",
			cause: "none", state: explain.Filtered, why: `metadata.labels["tier"]`,
		},
		{
			name: "a handler for Kubernetes Events", options: one(configMaps().OnEventAbout("react", clusterevents.Selector{}, ignoreEvent)), handler: "react",
			cause: "none", state: explain.Active, why: "it is called for ",
		},
		{
			name: "a handler for Kubernetes Events with a filter", options: one(configMaps().OnEventAbout("react", clusterevents.Selector{}, ignoreEvent, framework.Label("tier"))), handler: "react",
			cause: "none", state: explain.Filtered, why: `metadata.labels["tier"]`,
		},
		{
			name: "a handler for Kubernetes Events that waits for a retry", options: one(configMaps().OnEventAbout("react", clusterevents.Selector{}, busyForEvent, framework.Retries(3))),
			act: postEvent, handler: "react", cause: "none", state: explain.Waiting, why: "last error: the backend is busy",
		},
		{
			name: "a daemon", options: one(configMaps().Daemon("watch", daemons.Daemon{}, func(ctx context.Context, _ request) error { <-ctx.Done(); return nil })), handler: "watch",
			cause: "none", state: explain.Active, why: "it is running",
		},
		{
			name: "a daemon with a filter", options: one(configMaps().Daemon("watch", daemons.Daemon{}, succeed, framework.Label("tier"))), handler: "watch",
			cause: "none", state: explain.Filtered, why: `metadata.labels["tier"]`,
		},
		{
			name: "a daemon that has ended", options: one(configMaps().Daemon("watch", daemons.Daemon{}, succeed)), handler: "watch",
			cause: "none", state: explain.Ended,
		},
		{
			name: "a timer", options: one(configMaps().Timer("check", daemons.Timer{Interval: hour}, succeed)), handler: "check",
			cause: "none", state: explain.Waiting, why: "next in ",
		},
		{
			name: "a timer that has failed", options: one(configMaps().Timer("check", daemons.Timer{Interval: hour}, fail)), handler: "check",
			cause: "none", state: explain.Failed, why: "last error: no such size",
		},
		{
			name: "a timer that waits for a change", options: one(configMaps().Timer("check", daemons.Timer{Idle: time.Second}, succeed)), handler: "check",
			cause: "none", state: explain.Active, why: "it is called again when the object changes",
		},
	}
}

// WHY: for each case, the operator, the command with the operator, and the command with the records alone give the same reason.
func TestWhy(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	environment := kopftest.Environment(t)
	kubeconfig(t, environment.Config)
	names := sets.New[string]()
	for _, c := range whyCases() {
		if names.Has(c.name) {
			t.Fatalf("two cases with the name %q", c.name)
		}
		names.Insert(c.name)
		t.Run(c.name, func(t *testing.T) {
			g, cluster := NewWithT(t), environment.ForTest(t)
			g.SetDefaultEventuallyTimeout(30 * time.Second)
			obj := c.object.DeepCopy()
			obj.Name = "orders"
			cluster.Create(t, obj)
			if c.earlier != nil {
				earlier := cluster.Run(t, c.earlier()...)
				earlier.RunUntilQuiet(t)
				earlier.Stop(t)
			}
			if c.before != nil {
				c.before(t, cluster, obj)
			}
			operator, running, url := serve(t, cluster, c.options()...)
			if c.act != nil {
				running.RunUntilQuiet(t)
				c.act(t, cluster, obj)
			}
			check := func(g Gomega, x *explain.Explanation) {
				var text strings.Builder
				g.Expect(x.Write(&text)).To(Succeed())
				g.Expect(x.Handlers).To(ContainElement(And(HaveField("ID", c.handler), HaveField("State", c.state))), text.String())
				for _, h := range x.Handlers {
					if h.ID == c.handler {
						g.Expect(h.Explain(x.Time)).To(ContainSubstring(c.why))
					}
				}
				g.Expect(x.Cause).To(Equal(c.cause), text.String())
				g.Expect(text.String()).To(ContainSubstring(c.text))
				g.Expect(x.Source).To(Equal(explain.FromOperator))
			}
			g.Eventually(func(g Gomega) {
				x, err := operator.Explain(t.Context(), obj)
				g.Expect(err).NotTo(HaveOccurred())
				check(g, x)
			}).Should(Succeed())

			var all []*explain.Explanation
			out := mustRun(t, "why", "configmaps", "orders", "-n", cluster.Namespace, "--operator", url, "--insecure-skip-tls-verify", "-o", "json")
			must(t, json.Unmarshal([]byte(out), &all))
			g.Expect(all).To(HaveLen(1))
			check(g, all[0])
			g.Expect(mustRun(t, "why", "configmaps", "orders", "-n", cluster.Namespace, "--operator", url, "--insecure-skip-tls-verify", "--handler", c.handler)).
				To(And(ContainSubstring(c.why), ContainSubstring(string(c.state))))

			g.Eventually(func(g Gomega) { // the operator may not have written the records yet
				records := mustRun(t, "why", "configmaps", "orders", "-n", cluster.Namespace)
				for _, part := range append(c.records, "use --operator") {
					g.Expect(records).To(ContainSubstring(part))
				}
			}).Should(Succeed())
		})
	}
}

// The explanation says why no handler is called for an object at all.
func TestWhy_Waits(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	environment := kopftest.Environment(t, kopftest.CRDs(filepath.Join("..", "..", "config", "crd")))
	kubeconfig(t, environment.Config)
	var began <-chan struct{} // closed when the handler of the other object is called
	for _, c := range []struct {
		name    string
		options func(t *testing.T, cluster *kopftest.Cluster) []option
		act     func(*testing.T, *kopftest.Cluster, *kopftest.Operator)
		want    []string
	}{
		{
			"paused by a peer",
			func(_ *testing.T, cluster *kopftest.Cluster) []option {
				return []option{
					configMaps().OnCreate("make", succeed).Daemon("watch", daemons.Daemon{}, succeed),
					framework.WithPeering(peering.Options{Namespaces: []string{cluster.Namespace}}),
				}
			},
			func(t *testing.T, cluster *kopftest.Cluster, _ *kopftest.Operator) {
				mustRun(t, "peers", "freeze", "-n", cluster.Namespace, "-t", "600")
			},
			[]string{"waits: the operator is paused", "watch    daemon  paused"},
		},
		{
			"another label",
			func(*testing.T, *kopftest.Cluster) []option {
				return []option{configMaps().OnCreate("make", succeed), framework.WithWatchSelector("tier=gold")}
			},
			nil, []string{"waits: the operator does not see the object"},
		},
		{
			"a rejected write",
			func(*testing.T, *kopftest.Cluster) []option { return []option{configMaps().OnDelete("drop", succeed)} },
			func(_ *testing.T, _ *kopftest.Cluster, operator *kopftest.Operator) {
				operator.InjectFaults(kopftest.Fault{Verb: "patch", Resource: "configmaps", Code: http.StatusInternalServerError, Times: -1})
			},
			[]string{"waits: the last reconcile has failed and is repeated: "},
		},
		{
			"a running handler",
			func(*testing.T, *kopftest.Cluster) []option {
				return []option{configMaps().OnCreate("make", func(ctx context.Context, _ request) error {
					<-ctx.Done()
					return nil
				})}
			},
			nil, []string{"the operator is reconciling the object now", `attempt 1 of the handler "make" has been running for`, "make     cause  due"},
		},
		{
			"a worker that handles another object",
			func(t *testing.T, cluster *kopftest.Cluster) []option {
				cluster.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "blocker"}})
				blocked := make(chan struct{})
				began = blocked
				return []option{framework.For(&corev1.ConfigMap{}, framework.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 1})).OnCreate("make", func(ctx context.Context, req request) error {
					if req.Object.Name == "blocker" {
						close(blocked)
						<-ctx.Done()
					}
					return nil
				})}
			},
			func(*testing.T, *kopftest.Cluster, *kopftest.Operator) { <-began },
			[]string{"waits: it has been in the queue for ", "make     cause  due"},
		},
		{
			"handlers that cause their own calls",
			func(*testing.T, *kopftest.Cluster) []option {
				calls := 0
				touch := func(ctx context.Context, req request) error {
					calls++
					changed := req.Object.DeepCopy()
					changed.Data = map[string]string{"calls": strconv.Itoa(calls)}
					return req.Client.Patch(ctx, changed, client.MergeFrom(req.Object))
				}
				return []option{framework.For(&corev1.ConfigMap{}, framework.WithLoopGuard(2)).OnCreate("start", touch).OnUpdate("touch", touch)}
			},
			nil, []string{`waits: the handlers of the object cause their own calls: "start" changes data.calls, "touch" changes data.calls; the next ones in `},
		},
		{
			"a predicate of the controller",
			func(*testing.T, *kopftest.Cluster) []option {
				rejected := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
				return []option{framework.For(&corev1.ConfigMap{}, framework.WithPredicates(rejected)).OnCreate("make", succeed)}
			},
			nil, []string{"waits: the predicates of the controller (WithPredicates) have rejected the last event of the object", "make     cause  due"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, cluster := NewWithT(t), environment.ForTest(t)
			g.SetDefaultEventuallyTimeout(30 * time.Second)
			peers := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kopf.dev/v1", "kind": "KopfPeering"}}
			peers.SetName("default")
			cluster.Create(t, peers)
			operator, running, url := serve(t, cluster, c.options(t, cluster)...)
			if c.act != nil {
				c.act(t, cluster, running)
			}
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "orders"}}
			g.Eventually(func() error { // the operator is ready
				_, err := operator.Explain(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "none"}})
				return err
			}).Should(Succeed())
			cluster.Create(t, obj)
			g.Eventually(func(g Gomega) {
				out := mustRun(t, "why", "configmaps", "orders", "-n", cluster.Namespace, "--operator", url, "--insecure-skip-tls-verify")
				for _, part := range c.want {
					g.Expect(out).To(ContainSubstring(part))
				}
			}).Should(Succeed())
			_, err := operator.Explain(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "none"}})
			g.Expect(err).To(MatchError("the operator handles no objects of the kind Secret"))
			x, err := operator.Explain(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "none"}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(x.Summary()).To(Equal("the object does not exist"))
			_, err = kopf(t, "why", "configmaps", "none", "-n", cluster.Namespace)
			g.Expect(err).To(MatchError(ContainSubstring(`configmaps "none" not found`)))
		})
	}
}

// The values of Secrets are not shown.
func TestWhy_Secret(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g, cluster := NewWithT(t), kopftest.Environment(t)
	kubeconfig(t, cluster.Config)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	secrets := framework.For(&corev1.Secret{}).OnCreate("rotate", func(context.Context, *framework.Request[*corev1.Secret]) error { return nil },
		framework.Field("data.password", filter.Equal("wanted-value")))
	_, running, url := serve(t, cluster, secrets)
	obj := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "login", Annotations: map[string]string{"note": "confidential-note"}}, StringData: map[string]string{"password": "confidential"},
	}
	cluster.Create(t, obj)
	running.RunUntilQuiet(t)
	out := mustRun(t, "why", "secrets", "login", "-n", cluster.Namespace, "--operator", url, "--insecure-skip-tls-verify")
	g.Expect(out).To(And(ContainSubstring("the field data.password does not match"), Not(ContainSubstring("confidential")), Not(ContainSubstring("Y29uZmlkZW50aWFs"))))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the server of the test
	response, err := client.Get(url + statuspage.ObjectsPath)                                                  //nolint:noctx // the test ends soon
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	list, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(list)).To(And(ContainSubstring(`"name":"login"`), Not(ContainSubstring("confidential")), Not(ContainSubstring("Y29uZmlkZW50aWFs"))))
}

func TestWhy_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"x":                                 "requires at least 2 arg",
		"x y -o xml":                        "use table, json or yaml",
		"x y -A":                            "name one object",
		"x y -l a=b":                        "name one object",
		"x y --prefix a/b":                  "set the part before the slash",
		"x y --token t":                     "are for --operator: add it",
		"x y --operator nowhere":            `--operator is "nowhere": set a URL`,
		"x y --operator ftp://x":            "set a URL",
		"x y --operator http://x --token t": "must not be sent without TLS",
		"x y --operator https://x --token-file nowhere":     "--token-file: open nowhere",
		"x y --operator https://x --token t --token-file f": "are mutually exclusive",
		"x y": "no access to a cluster",
	} {
		if out, err := kopf(t, append([]string{"why"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, part, out)
		}
	}
}

// The errors of the operator say what to do.
func TestOperatorEndpoint_Errors(t *testing.T) {
	for _, c := range []struct {
		status           int
		mediaType, body  string
		want             string
		token, wantToken string
	}{
		{status: 401, body: "Unauthorized", want: "does not accept the token", token: "secret", wantToken: "Bearer secret"},
		{status: 403, want: "nonResourceURLs /kopf/*"},
		{status: 404, body: "404 page not found", want: "add the option kopf.WithStatusPage"},
		{status: 200, mediaType: "text/html", body: "<html>Log in", want: "there is no status page"},
		{status: 503, mediaType: "application/json", body: `{"error":"another replica is the leader"}`, want: "another replica is the leader"},
		{status: 200, mediaType: "application/json", body: `{"kind":`, want: "read the answer of the operator"},
		{status: 500, want: "500 Internal Server Error"},
	} {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != c.wantToken {
				t.Errorf("Authorization = %q, want %q", got, c.wantToken)
			}
			w.Header().Set("Content-Type", c.mediaType)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		endpoint := operatorEndpoint{url: server.URL, token: c.token, insecure: true}
		if err := endpoint.get(t.Context(), statuspage.ExplainPath, &explain.Explanation{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: got error %v, want %s", c.status, c.body, err, c.want)
		}
		server.Close()
		if err := endpoint.get(t.Context(), statuspage.ExplainPath, &explain.Explanation{}); err == nil || !strings.Contains(err.Error(), "check --operator, and the port-forward") {
			t.Errorf("got error %v for a server that is closed", err)
		}
	}
}

// The role in docs/why.md permits the status page and no other URL.
func TestWhy_RoleOfThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g, cluster := NewWithT(t), kopftest.Environment(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "why.md"))
	must(t, err)
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	role := &rbacv1.ClusterRole{}
	must(t, yaml.UnmarshalStrict([]byte(text), role))
	must(t, cluster.Client.Create(t.Context(), role))
	must(t, cluster.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}))
	allows := func(path string) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "jane", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		}}
		err := cluster.Client.Create(t.Context(), review)
		return review.Status.Allowed, err
	}
	for _, path := range []string{statuspage.Path, statuspage.ObjectsPath, statuspage.ExplainPath, statuspage.Path + "page.js"} {
		g.Eventually(func() (bool, error) { return allows(path) }).Should(BeTrue(), path)
	}
	g.Expect(allows("/metrics")).To(BeFalse())
}
