package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	framework "github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

const databases = "databases.example.com"

// rolloutCluster starts an API server in memory with the kind Database, and makes commands use it as the user jane.
func rolloutCluster(t *testing.T) (*rest.Config, client.Client) {
	t.Helper()
	resources := slices.DeleteFunc(apiserver.FromScheme(clientgoscheme.Scheme), func(r apiserver.Resource) bool { return r.GroupVersion.Version != "v1" })
	endpoint, err := apiserver.New(append(resources, apiserver.Resource{
		GroupVersion: schema.GroupVersion{Group: "example.com", Version: "v1"}, Kind: "Database", Plural: "databases",
	})...).Listen("127.0.0.1:0", nil)
	must(t, err)
	t.Cleanup(func() { must(t, endpoint.Close()) })
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: endpoint.Config.Host, CertificateAuthorityData: endpoint.Config.CAData}
	c.AuthInfos["jane"] = &clientcmdapi.AuthInfo{Token: endpoint.Config.BearerToken}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "jane", Namespace: "shop-system"}
	c.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, clientcmd.WriteToFile(*c, file))
	t.Setenv("KUBECONFIG", file)
	k8s, err := client.New(endpoint.Config, client.Options{})
	must(t, err)
	return endpoint.Config, k8s
}

// rolloutKey is where the operator of the tests has its state.
var rolloutKey = client.ObjectKey{Namespace: "shop-system", Name: rollout.DefaultName}

// store writes states of rollouts. A string is stored as it is.
func store(t *testing.T, k8s client.Client, states map[string]any) {
	t.Helper()
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rolloutKey.Namespace, Name: rolloutKey.Name}, Data: map[string]string{}}
	for kind, state := range states {
		text, isText := state.(string)
		if !isText {
			encoded, err := json.Marshal(state)
			must(t, err)
			text = string(encoded)
		}
		obj.Data[kind] = text
	}
	must(t, client.IgnoreNotFound(k8s.Delete(t.Context(), obj.DeepCopy())))
	must(t, k8s.Create(t.Context(), obj))
}

// stateIn returns the stored state of a rollout.
func stateIn(t *testing.T, k8s client.Client, kind string) rollout.State {
	t.Helper()
	states, err := rollout.Load(t.Context(), k8s, rolloutKey)
	must(t, err)
	return states[kind]
}

// numbers returns the progress of the only shard, as it was twelve and a half minutes ago.
func numbers(waiting, running, done, failed int) map[string]rollout.Progress {
	return map[string]rollout.Progress{"": {
		Total: waiting + running + done, Waiting: waiting, Running: running, Done: done, Failed: failed, At: time.Now().Add(-12*time.Minute - 30*time.Second),
	}}
}

// squeezed returns a table with single spaces between its cells.
func squeezed(table string) (lines []string) {
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestRollout_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"status a b":                   "accepts at most 1 arg",
		"status -o xml":                "use table, json or yaml",
		"status --name=":               `--name is "": use the name of a ConfigMap`,
		"status --name A/b":            `--name is "A/b": use the name of a ConfigMap`,
		"status -n team-*":             `--namespace is "team-*": use the name of a namespace`,
		"status":                       "no access to a cluster (check --kubeconfig and --context)",
		"halt":                         "accepts 1 arg(s), received 0",
		"halt a b":                     "accepts 1 arg(s), received 2",
		"halt a -o xml":                "use table, json or yaml",
		"halt a":                       "no access to a cluster",
		"resume":                       "accepts 1 arg(s), received 0",
		"resume a --timeout 1m":        "--timeout is for --wait: add it",
		"resume a --kubeconfig x":      "no access to a cluster",
		"resume a --name a_b":          `--name is "a_b"`,
		"resume a --wait --timeout 0s": "--timeout must be positive, got 0s",
		"halt a --message " + strings.Repeat("x", 1025): "--message has 1025 bytes: use at most 1024",
	} {
		if out, err := kopf(t, append([]string{"rollout"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("kopf rollout %s: %q, %v; want %q", args, out, err, part)
		}
	}
}

func TestRollout_Status(t *testing.T) {
	_, k8s := rolloutCluster(t)
	none := "there is no rollout in the namespace shop-system: the ConfigMap kopf-rollout does not exist: use --namespace for the namespace of the operator, " +
		"and --name if its WithRollout has another Name\n"
	for _, args := range []string{"", "database"} {
		if got := mustRun(t, strings.Fields("rollout status "+args)...); got != none {
			t.Errorf("without a ConfigMap, status %s prints %q, want %q", args, got, none)
		}
	}
	if got := mustRun(t, "rollout", "status", "-n", "other", "-o", "json"); !strings.HasPrefix(got, "there is no rollout in the namespace other") || !strings.HasSuffix(got, "\n[]\n") {
		t.Errorf("without a ConfigMap, got %q, want a message and an empty list", got)
	}
	store(t, k8s, nil)
	if got := mustRun(t, "rollout", "status"); !strings.Contains(got, "the ConfigMap kopf-rollout is empty") {
		t.Errorf("for an empty ConfigMap, got %q", got)
	}

	stop := &rollout.Stop{At: time.Now(), By: "rollout", Message: "3 of 10 canaries\n\x1b[2Jhave failed"}
	store(t, k8s, map[string]any{
		"configmaps":              rollout.State{Revisions: "a 1", Progress: numbers(5, 2, 3, 1)},
		databases:                 rollout.State{Revisions: "provision 3, scale 1", Progress: numbers(90, 0, 10, 0)},
		"deployments.apps":        rollout.State{Revisions: "b 2", Halted: stop, Progress: numbers(40, 1, 9, 3)},
		"jobs.batch":              rollout.State{Revisions: "c 1", Halted: stop, Resume: true, Progress: numbers(1, 0, 1, 0)},
		"pods":                    rollout.State{Revisions: "d 4", Progress: numbers(0, 0, 7, 1)},
		"services":                rollout.State{Revisions: "e 1"},
		"statefulsets.apps":       rollout.State{Revisions: "f 1", Progress: map[string]rollout.Progress{"": {Total: 1, Running: 1, At: time.Now().Add(time.Hour)}}},
		"tables.gone.example.com": rollout.State{Revisions: "g 1", Progress: map[string]rollout.Progress{"": {Total: 1, Running: 1}}},
	})
	want := []string{
		"KIND REVISIONS TOTAL WAITING RUNNING DONE FAILED UPDATED STATE",
		"configmaps a 1 10 5 2 3 1 12m ago running",
		"databases.example.com provision 3, scale 1 100 90 0 10 0 12m ago waiting for the time to soak or for the window",
		`deployments.apps b 2 50 40 1 9 3 12m ago halted by rollout: 3 of 10 canaries \x1b[2Jhave failed`,
		`jobs.batch c 1 2 1 0 1 0 12m ago halted by rollout: 3 of 10 canaries \x1b[2Jhave failed; a user has asked to resume, and the operator has not answered yet`,
		"pods d 4 7 0 0 7 1 12m ago complete",
		"services e 1 - - - - - - complete",
		"statefulsets.apps f 1 1 0 1 0 0 0s ago running", // the operator's clock is ahead
		"tables.gone.example.com g 1 1 0 1 0 0 - running",
	}
	if diff := cmp.Diff(want, squeezed(mustRun(t, "rollout", "status"))); diff != "" {
		t.Errorf("all kinds (-want +got):\n%s", diff)
	}
	for name, line := range map[string]int{"databases": 2, "database": 2, "Database": 2, databases: 2, "databases.v1.example.com": 2, "ConfigMap": 1, "deployment": 3, "tables.gone.example.com": 8} {
		if diff := cmp.Diff([]string{want[0], want[line]}, squeezed(mustRun(t, "rollout", "status", name))); diff != "" {
			t.Errorf("status %s (-want +got):\n%s", name, diff)
		}
	}
	fails(t, `the API server has no kind "tables": use a name as in kubectl`, "rollout", "status", "tables")
	if got := mustRun(t, "rollout", "status", "secrets"); !strings.HasPrefix(got, "there is no rollout of secrets in the namespace shop-system, only of configmaps, databases.example.com, ") {
		t.Errorf("for a kind without a rollout, got %q", got)
	}

	var lines []rolloutLine
	must(t, json.Unmarshal([]byte(mustRun(t, "rollout", "status", "deployments", "-o", "json")), &lines))
	if len(lines) != 1 || lines[0].Kind != "deployments.apps" || lines[0].State != "halted" || lines[0].Halted.By != "rollout" || lines[0].Waiting != 40 || lines[0].At.IsZero() {
		t.Errorf("got %+v as JSON", lines)
	}
	if got := mustRun(t, "rollout", "status", "services", "-o", "yaml"); got != "- kind: services\n  revisions: e 1\n  state: complete\n" {
		t.Errorf("got %q as YAML", got)
	}
	fails(t, "no access to a cluster", "rollout", "status", "--context", "other")
}

func TestRollout_StatusOfShards(t *testing.T) {
	_, k8s := rolloutCluster(t)
	of := func(waiting, running, done int) rollout.Progress { return numbers(waiting, running, done, 0)[""] }
	store(t, k8s, map[string]any{
		databases: rollout.State{Revisions: "a 2", Progress: map[string]rollout.Progress{"shop-1": of(3, 0, 1), "shop-0": of(0, 0, 4), "shop-2": of(3, 1, 1)}},
		"pods":    rollout.State{Revisions: "b 1", Halted: &rollout.Stop{By: "jane", Message: "wait"}, Progress: map[string]rollout.Progress{"shop-0": of(0, 0, 1), "shop-1": of(1, 0, 1)}},
	})
	want := []string{
		"KIND SHARD REVISIONS TOTAL WAITING RUNNING DONE FAILED UPDATED STATE",
		"databases.example.com shop-0 a 2 4 0 0 4 0 12m ago complete",
		"databases.example.com shop-1 a 2 4 3 0 1 0 12m ago waiting for the time to soak or for the window",
		"databases.example.com shop-2 a 2 5 3 1 1 0 12m ago running",
		"pods shop-0 b 1 1 0 0 1 0 12m ago halted by jane: wait",
		"pods shop-1 b 1 2 1 0 1 0 12m ago halted by jane: wait",
	}
	if diff := cmp.Diff(want, squeezed(mustRun(t, "rollout", "status"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var lines []rolloutLine
	must(t, json.Unmarshal([]byte(mustRun(t, "rollout", "status", "databases", "-o", "json")), &lines))
	if len(lines) != 3 || lines[0].Shard != "shop-0" || lines[1].State != "waiting" || lines[2].Total != 5 {
		t.Errorf("got %+v as JSON", lines)
	}
}

// An unreadable value of one kind does not hide the others, and only they can be changed.
func TestRollout_UnreadableValue(t *testing.T) {
	_, k8s := rolloutCluster(t)
	store(t, k8s, map[string]any{
		databases: `{"revisions":`,
		"pods":    rollout.State{Revisions: "b 1", Progress: numbers(1, 1, 1, 0)},
		"secrets": `{"revisions":5}`,
	})
	for _, args := range []string{"status", "status database", "halt database", "resume database", "status -o json"} {
		out, err := kopf(t, append([]string{"rollout"}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), `the ConfigMap shop-system/kopf-rollout: the value of "databases.example.com" is no state of a rollout: remove it or correct it`) {
			t.Errorf("kopf rollout %s: %v", args, err)
			continue
		}
		hasAll := strings.Contains(err.Error(), `the value of "secrets"`) && regexp.MustCompile(`pods +b 1|"kind": "pods"`).MatchString(out)
		if isOfAll := !strings.Contains(args, "database"); hasAll != isOfAll || strings.HasPrefix(args, "status") != strings.Contains(out, "unreadable") {
			t.Errorf("kopf rollout %s: %v; output:\n%s", args, err, out)
		}
	}
	mustRun(t, "rollout", "halt", "pods")
	if state := stateOfRaw(t, k8s)["secrets"]; state != `{"revisions":5}` {
		t.Errorf("the value of another kind is %q now", state)
	}
}

func stateOfRaw(t *testing.T, k8s client.Client) map[string]string {
	t.Helper()
	var found corev1.ConfigMap
	must(t, k8s.Get(t.Context(), rolloutKey, &found))
	return found.Data
}

func TestRollout_HaltAndResume(t *testing.T) {
	_, k8s := rolloutCluster(t)
	for _, verb := range []string{"halt", "resume"} {
		fails(t, "there is no rollout in the namespace shop-system: the ConfigMap kopf-rollout does not exist: use --namespace for the namespace of the operator", "rollout", verb, "databases")
		fails(t, "there is no rollout in the namespace other: the ConfigMap custom does not exist", "rollout", verb, "databases", "-n", "other", "--name", "custom")
	}
	store(t, k8s, map[string]any{databases: rollout.State{Revisions: "provision 3", Progress: numbers(36, 0, 4, 0)}, "pods": rollout.State{}, "jobs.batch": rollout.State{Progress: numbers(3, 1, 1, 0)}})
	for _, verb := range []string{"halt", "resume"} {
		fails(t, `the API server has no kind "tables": use a name as in kubectl`, "rollout", verb, "tables")
		fails(t, "there is no rollout of secrets in the namespace shop-system, only of databases.example.com, jobs.batch, pods: a rollout begins when a handler gets a newer Revision", "rollout", verb, "secrets")
	}
	fails(t, "the rollout of databases.example.com is not halted: kopf rollout status shows its state", "rollout", "resume", "Database", "--wait")
	fails(t, "there is no rollout of pods", "rollout", "halt", "pods")
	if got := squeezed(mustRun(t, "rollout", "halt", "jobs")); !strings.HasSuffix(got[1], "jobs.batch - 5 3 1 1 0 12m ago halted by jane: no reason given") {
		t.Errorf("halt of a rollout without revisions, for a change of the schema, prints %q", got)
	}

	got := squeezed(mustRun(t, "rollout", "halt", "Database", "--message", "the backend is full"))
	if want := "databases.example.com provision 3 40 36 0 4 0 12m ago halted by jane: the backend is full"; len(got) != 2 || got[1] != want {
		t.Errorf("halt prints %q, want %q", got, want)
	}
	if stop := stateIn(t, k8s, databases).Halted; stop == nil || stop.By != "jane" || stop.Message != "the backend is full" || time.Since(stop.At) > time.Minute {
		t.Errorf("halted = %+v", stop)
	}
	if got := squeezed(mustRun(t, "rollout", "resume", "databases")); !strings.HasSuffix(got[1], "halted by jane: the backend is full; a user has asked to resume, and the operator has not answered yet") {
		t.Errorf("resume prints %q", got)
	}
	if state := stateIn(t, k8s, databases); !state.Resume || state.Halted == nil {
		t.Errorf("after the request to resume, the state is %+v", state)
	}
	// A halt revokes the request.
	var lines []rolloutLine
	must(t, json.Unmarshal([]byte(mustRun(t, "rollout", "halt", databases, "-o", "json")), &lines))
	if state := stateIn(t, k8s, databases); state.Resume || len(lines) != 1 || lines[0].State != "halted" || lines[0].Halted.Message != "no reason given" {
		t.Errorf("after the second halt, the state is %+v, and the output %+v", state, lines)
	}
}

// answer acts as an operator that changes the state once there is a request to resume.
func answer(t *testing.T, k8s client.Client, change func()) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if states, err := rollout.Load(t.Context(), k8s, rolloutKey); err == nil && states[databases].Resume {
				change()
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}()
	return func() {
		cancel() // if the command has not asked
		<-done
	}
}

func TestRollout_ResumeWaits(t *testing.T) {
	_, k8s := rolloutCluster(t)
	halted := rollout.State{Revisions: "provision 3", Halted: &rollout.Stop{By: "rollout", Message: "2 of 4 canaries have failed"}, Progress: numbers(36, 0, 4, 2)}
	change := func(by func(*rollout.State)) func() {
		return func() {
			must(t, rollout.Change(t.Context(), k8s, rolloutKey, databases, func(s *rollout.State) error { by(s); return nil }))
		}
	}
	for want, operator := range map[string]func(){
		"": change(func(s *rollout.State) {
			*s = rollout.State{Revisions: s.Revisions, Resumed: new(time.Now()), Progress: s.Progress}
		}),
		"the rollout of databases.example.com was halted again by ann: no": change(func(s *rollout.State) {
			s.Resume, s.Halted = false, &rollout.Stop{By: "ann", Message: "no"}
		}),
		"another client has removed the rollout of databases.example.com from the ConfigMap shop-system/kopf-rollout": func() {
			must(t, k8s.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rolloutKey.Namespace, Name: rolloutKey.Name}}))
		},
		"is no state of a rollout": func() {
			must(t, k8s.Patch(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: rolloutKey.Namespace, Name: rolloutKey.Name}},
				client.RawPatch("application/merge-patch+json", []byte(`{"data":{"databases.example.com":"x"}}`))))
		},
	} {
		store(t, k8s, map[string]any{databases: halted})
		wait := answer(t, k8s, operator)
		out, err := kopf(t, "rollout", "resume", "databases", "--wait")
		wait()
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got error %v, want %q; output:\n%s", err, want, out)
		case want == "" && (err != nil || !strings.HasSuffix(strings.TrimSpace(out), "waiting for the time to soak or for the window")):
			t.Errorf("got error %v and the output:\n%s", err, out)
		}
	}
	store(t, k8s, map[string]any{databases: halted})
	fails(t, "no answer after 1s: the operator may be stopped, have no WithRollout, or have other revisions than these: provision 3; the request stays",
		"rollout", "resume", "databases", "--wait", "--timeout", "1s")
	if !stateIn(t, k8s, databases).Resume {
		t.Error("the request is gone")
	}
	fails(t, "no answer after 1s", "rollout", "resume", "databases", "--wait", "--timeout", "1s") // the same request once more
}

// If the API server does not say who the user is, the kubeconfig or the operating system does.
func TestRollout_User(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	t.Setenv("LOGNAME", "ann")
	for authInfo, want := range map[string]string{"jane": "jane", "": peering.Whoami()} {
		c := clientcmdapi.NewConfig()
		c.Clusters["test"] = &clientcmdapi.Cluster{Server: server.URL}
		c.AuthInfos["jane"] = &clientcmdapi.AuthInfo{}
		c.Contexts["other"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "wrong"}
		c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: authInfo}
		c.CurrentContext = "other"
		file := filepath.Join(t.TempDir(), "kubeconfig")
		must(t, clientcmd.WriteToFile(*c, file))
		target, err := (&rolloutPlace{cluster: cluster{kubeconfig: file, context: "test"}, name: "x"}).open()
		must(t, err)
		if got := target.user(t.Context()); got != want {
			t.Errorf("got the user %q, want %q", got, want)
		}
	}
}

// Users need the rights in docs/deployment.md. The halt has the name that the API server knows.
func TestRollout_Rights(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	g, cluster := NewWithT(t), kopftest.Environment(t).ForTest(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	other := rest.CopyConfig(cluster.Config)
	other.Impersonate.UserName = "jane@example.com"
	kubeconfig(t, other)
	state, err := json.Marshal(rollout.State{Revisions: "provision 3", Progress: numbers(36, 0, 4, 0)})
	must(t, err)
	cluster.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: rollout.DefaultName}, Data: map[string]string{"configmaps": string(state)}})
	for _, verb := range []string{"status", "halt", "resume"} {
		fails(t, fmt.Sprintf("you have no permission for the ConfigMap %s/kopf-rollout: ", cluster.Namespace), "rollout", verb, "configmaps", "-n", cluster.Namespace)
		fails(t, "must have the verb get, and for halt and resume also update, for resources: [configmaps], resourceNames: [kopf-rollout]", "rollout", verb, "configmaps", "-n", cluster.Namespace)
	}
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{rollout.DefaultName}, Verbs: []string{"get"}}},
	}
	cluster.Create(t, role)
	cluster.Create(t, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane@example.com"}},
	})
	g.Eventually(func() (string, error) { return kopf(t, "rollout", "status", "-n", cluster.Namespace) }).Should(ContainSubstring("provision 3"))
	_, err = kopf(t, "rollout", "halt", "configmaps", "-n", cluster.Namespace)
	g.Expect(err).To(MatchError(And(ContainSubstring("you have no permission"), ContainSubstring("cannot update resource"))))
	role.Rules[0].Verbs = append(role.Rules[0].Verbs, "update")
	must(t, cluster.Client.Update(t.Context(), role))
	g.Eventually(func() (string, error) { return kopf(t, "rollout", "halt", "configmaps", "-n", cluster.Namespace) }).
		Should(ContainSubstring("halted by jane@example.com: no reason given"))
	mustRun(t, "rollout", "resume", "configmaps", "-n", cluster.Namespace)
}

// A rollout halts itself, is resumed, is halted by a user, and ends.
func TestRollout_Operator(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	cfg, k8s := rolloutCluster(t)
	var broken atomic.Bool
	broken.Store(true)
	var calls atomic.Int32
	proceed := make(chan struct{}, 100)
	apply := func(ctx context.Context, req request) error {
		switch {
		case req.Reason != framework.ReasonRevision:
			return nil
		case broken.Load():
			return framework.Permanent(errors.New("invalid"))
		}
		calls.Add(1)
		select {
		case <-proceed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	run := func(options []option, handler ...framework.HandlerOption) (stop func()) {
		mgr, err := ctrl.NewManager(cfg, ctrl.Options{Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)}})
		must(t, err)
		must(t, framework.SetupWithManager(mgr, append(options, configMaps().OnCreateOrUpdate("apply", apply, append(handler, framework.Label("fleet"))...))...))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		return func() {
			cancel()
			must(t, <-ended)
		}
	}
	for i := range 8 {
		must(t, k8s.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("o", i), Labels: map[string]string{"fleet": ""}}}))
	}
	stop := run(nil)
	handled := func(annotation, part string) func() int {
		return func() (n int) {
			var list corev1.ConfigMapList
			must(t, k8s.List(t.Context(), &list, client.InNamespace("shop")))
			for _, obj := range list.Items {
				if value, exists := obj.Annotations[annotation]; exists && strings.Contains(value, part) {
					n++
				}
			}
			return n
		}
	}
	g.Eventually(handled(baseline, "")).Should(Equal(8))
	stop()
	stop = run([]option{framework.WithRollout(rollout.Options{MaxParallel: 1, Namespace: "shop-system"})}, framework.Revision(1))
	defer func() { stop() }()
	status := func() (string, error) { return kopf(t, "rollout", "status", "configmaps") }
	g.Eventually(status).Should(MatchRegexp(`configmaps +apply 1 +8 .* halted by rollout: 2 of 2 objects so far have failed`))

	broken.Store(false)
	g.Expect(mustRun(t, "rollout", "resume", "configmaps", "--wait")).NotTo(ContainSubstring("halted"))
	g.Eventually(calls.Load).Should(BeEquivalentTo(1))
	g.Expect(mustRun(t, "rollout", "halt", "configmaps", "-m", "wait for me")).To(ContainSubstring("halted by jane: wait for me"))
	proceed <- struct{}{}
	g.Eventually(handled("kopf.zalando.org/revision", `"apply":{"revision":1,`)).Should(Equal(3))
	g.Consistently(calls.Load).Should(BeEquivalentTo(1))
	g.Expect(status()).To(ContainSubstring("halted by jane: wait for me"))
	mustRun(t, "rollout", "resume", "configmaps", "--wait")
	for range 5 {
		proceed <- struct{}{}
	}
	g.Eventually(status).Should(MatchRegexp(`apply 1 +8 +0 +0 +8 +2 .* complete`))

	stop()
	stop = func() {}
	fails(t, "the rollout of configmaps is complete", "rollout", "halt", "configmaps")
	must(t, rollout.Change(t.Context(), k8s, client.ObjectKey{Namespace: "shop-system", Name: rollout.DefaultName}, "configmaps", func(s *rollout.State) error {
		s.Progress = map[string]rollout.Progress{"": {Total: 8, Waiting: 1, Done: 7}}
		return nil
	}))
	mustRun(t, "rollout", "halt", "configmaps")
	fails(t, "no answer after 1s: the operator may be stopped", "rollout", "resume", "configmaps", "--wait", "--timeout", "1s")
}

// The commands of docs/upgrades.md print what is there.
func TestRollout_Page(t *testing.T) {
	_, k8s := rolloutCluster(t)
	text, err := os.ReadFile("../../docs/upgrades.md")
	must(t, err)
	blocks := regexp.MustCompile("(?s)```console\n\\$ kopf ([^\n]*)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/upgrades.md has the commands %q, want two", blocks)
	}
	store(t, k8s, map[string]any{
		databases: rollout.State{
			Revisions: "provision 3", Halted: &rollout.Stop{By: "rollout", Message: "2 of 8 canaries have failed"}, Progress: numbers(392, 0, 8, 2),
		},
		"deployments.apps": rollout.State{Revisions: "scale 2", Progress: numbers(12, 5, 23, 0)},
	})
	wait := answer(t, k8s, func() {
		must(t, rollout.Change(t.Context(), k8s, rolloutKey, databases, func(s *rollout.State) error {
			s.Halted, s.Resume, s.Progress = nil, false, numbers(387, 5, 8, 2)
			return nil
		}))
	})
	for _, block := range blocks {
		if got := regexp.MustCompile(` +\n`).ReplaceAllString(mustRun(t, strings.Fields(block[1])...), "\n"); strings.TrimSpace(got) != strings.TrimSpace(block[2]) {
			t.Errorf("kopf %s prints\n%s\nwant\n%s", block[1], got, block[2])
		}
	}
	wait()
}
