package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	v1 "github.com/kopf-runtime/kopf-runtime/pkg/peering/v1"
)

// kopf runs the command.
func kopf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot("kopf")
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, err := kopf(t, args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// CLI-02: the command rejects invalid flags before any request.
func TestPeers_InvalidFlags(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for args, part := range map[string]string{
		"freeze":                       `required flag(s) "lifetime" not set`,
		"freeze --dev -p high":         "invalid argument",
		"freeze -t soon":               "use seconds, such as 600, or a duration",
		"freeze -t 0":                  "--lifetime must be at least 1s, got 0s",
		"freeze -t -5":                 "--lifetime must be at least 1s, got -5s",
		"freeze -t 169h":               "--lifetime must be at most 168h0m0s, got 169h0m0s",
		"freeze -t 60 -p high":         "invalid argument",
		"freeze -t 60 extra":           `unknown command "extra"`,
		"list -o xml":                  "use table, json or yaml",
		"list -A -n x":                 "are mutually exclusive",
		"list --namespace=":            "--namespace is empty",
		"list --peering=":              "--peering is empty",
		"resume":                       "no access to a cluster (check --kubeconfig and --context)",
		"resume --kubeconfig /nowhere": "no access to a cluster",
	} {
		if out, err := kopf(t, append([]string{"peers"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s; output:\n%s", args, err, part, out)
		}
	}
}

// CLI-01: the command validates environment variables like flags.
func TestPeers_InvalidVariables(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for variable, part := range map[string]string{
		"LIFETIME=soon":    "environment variable KOPF_FREEZE_LIFETIME: invalid argument \"soon\"",
		"LIFETIME=0":       "--lifetime must be at least 1s",
		"PRIORITY=high":    "environment variable KOPF_FREEZE_PRIORITY",
		"DEV=perhaps":      "environment variable KOPF_FREEZE_DEV",
		"CLUSTERWIDE=true": "are mutually exclusive", // CLI-02
		"LIFETIME=":        `required flag(s) "lifetime" not set`,
	} {
		t.Run(variable, func(t *testing.T) {
			name, value, _ := strings.Cut(variable, "=")
			args := []string{"peers", "freeze", "-n", "a"}
			if name != "LIFETIME" {
				args = append(args, "-t", "60")
			}
			t.Setenv("KOPF_FREEZE_"+name, value)
			if out, err := kopf(t, args...); err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("got error %v, want %s; output:\n%s", err, part, out)
			}
		})
	}
}

func TestHelp_ShowsTheNameOfTheExecutable(t *testing.T) {
	for file, name := range map[string]string{"/bin/kopf": "kopf peers", "/bin/kubectl-kopf": "kubectl kopf peers"} {
		var out bytes.Buffer
		root := newRoot(file)
		root.SetOut(&out)
		root.SetArgs([]string{"peers", "freeze", "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), name+" freeze [flags]") || !strings.Contains(out.String(), "Examples:") {
			t.Errorf("help of %s does not show %q and examples:\n%s", file, name, out.String())
		}
	}
}

func TestPeers_ChangePeeringObjects(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cp, err := controlplane.Start(controlplane.Options{Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop() })
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cp.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("LOGNAME", "ann")
	scheme := runtime.NewScheme()
	must(t, v1.AddToScheme(scheme))
	must(t, corev1.AddToScheme(scheme))
	k8s, err := client.New(cp.Config, client.Options{Scheme: scheme})
	must(t, err)

	// PEER-62: freeze fails without the CRD and without the object.
	fails(t, "install the CustomResourceDefinitions", "peers", "freeze", "-t", "60")
	_, err = envtest.InstallCRDs(cp.Config, envtest.CRDInstallOptions{Paths: []string{"../../config/crd"}})
	must(t, err)
	fails(t, `the ClusterKopfPeering "default" does not exist`, "peers", "list")
	fails(t, `the KopfPeering "ours" does not exist in the namespaces a, b`, "peers", "resume", "-P", "ours", "-n", "a,b")
	fails(t, `is not a valid namespace or pattern`, "peers", "list", "-n", "[")

	must(t, k8s.Create(t.Context(), &v1.ClusterKopfPeering{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	for _, namespace := range []string{"team-a", "team-b", "other"} {
		must(t, k8s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
		must(t, k8s.Create(t.Context(), &v1.KopfPeering{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}))
	}

	// PEER-60, PEER-12: freeze sends one write with kopf's defaults, for user@host.
	tail := cp.AuditSinceStart()
	_, err = tail.Next() // skip earlier requests
	must(t, err)
	mustRun(t, "peers", "freeze", "-t", "60")
	requests, err := tail.Next()
	must(t, err)
	if len(requests) != 1 || requests[0].Verb != "patch" {
		t.Fatalf("PEER-60: got %d requests, want one patch", len(requests))
	}
	var body struct{ Status map[string]peering.Record }
	must(t, json.Unmarshal(requests[0].Body, &body))
	record := body.Status[peering.Whoami()]
	if record.Priority != 100 || record.Lifetime.Seconds() != 60 || record.LastSeen.IsZero() || strings.Contains(string(requests[0].Body), "message") {
		t.Errorf("PEER-60: got request body %s, want a record with the defaults of kopf", requests[0].Body)
	}

	// The table shows the values of --lifetime, --dev and --id, and escapes control characters of --message.
	table := mustRun(t, "peers", "freeze", "-t", "1h", "--dev", "--id", "x", "-m", "two\n\x1b[2Jlines")
	if rows := strings.Split(strings.TrimSpace(table), "\n"); len(rows) != 3 ||
		!strings.HasPrefix(rows[0], "PEERING ") || !strings.Contains(rows[1], peering.Whoami()) ||
		!strings.HasPrefix(rows[2], "clusterkopfpeering.kopf.dev/default ") ||
		!strings.Contains(strings.Join(strings.Fields(rows[2]), " "), "x 666 3600s ") || !strings.HasSuffix(rows[2], `live    two \x1b[2Jlines`) {
		t.Errorf("got unexpected table:\n%s", table)
	}

	// PEER-61: resume removes one record, and succeeds without one.
	mustRun(t, "peers", "resume")
	mustRun(t, "peers", "resume", "-i", "nobody")
	var objects []peeringOutput
	must(t, json.Unmarshal([]byte(mustRun(t, "peers", "list", "-o", "json")), &objects))
	if len(objects) != 1 || len(objects[0].Peers) != 1 || objects[0].Peers[0].Identity != "x" || *objects[0].Peers[0].Lifetime != 3600 {
		t.Errorf("PEER-61: got %+v, want only the record of x", objects)
	}

	// CLI-01, CLI-03: flags override environment variables, and --dev overrides --priority.
	t.Run("environment variables", func(t *testing.T) {
		for name, value := range map[string]string{
			"KOPF_FREEZE_ID": "y", "KOPF_FREEZE_LIFETIME": "30", "KOPF_FREEZE_PRIORITY": "7", "KOPF_FREEZE_DEV": "false", "KOPF_FREEZE_MESSAGE": "why",
			"KOPF_FREEZE_PEERING": "default", "KOPF_FREEZE_NAMESPACES": "team-a  team-b", "KOPF_FREEZE_CLUSTERWIDE": "false",
			"KOPF_RESUME_ID": "y", "KOPF_RESUME_NAMESPACES": "team-?", "KOPF_LIST_NAMESPACES": "*",
		} {
			t.Setenv(name, value)
		}
		records := func() (all []string) {
			var objects []peeringOutput
			must(t, json.Unmarshal([]byte(mustRun(t, "peers", "list", "-o", "json")), &objects))
			for _, o := range objects {
				for _, p := range o.Peers {
					all = append(all, fmt.Sprint(o.Namespace, " ", p.Identity, " ", *p.Priority, " ", *p.Lifetime, " ", p.Message))
				}
			}
			return all
		}
		for args, want := range map[string]string{"": "7 30 why", "-p 8 -t 40": "8 40 why", "-p 8 --dev -m so": "666 30 so"} {
			mustRun(t, append([]string{"peers", "freeze"}, strings.Fields(args)...)...)
			if diff := cmp.Diff([]string{"team-a y " + want, "team-b y " + want}, records()); diff != "" {
				t.Errorf("CLI-01: records after freeze %s (-want +got):\n%s", args, diff)
			}
		}
		// --priority overrides KOPF_FREEZE_DEV.
		t.Setenv("KOPF_FREEZE_DEV", "true")
		for args, want := range map[string]string{"": "666 30 why", "-p 5": "5 30 why"} {
			mustRun(t, append([]string{"peers", "freeze"}, strings.Fields(args)...)...)
			if diff := cmp.Diff([]string{"team-a y " + want, "team-b y " + want}, records()); diff != "" {
				t.Errorf("CLI-01: records after freeze %s with KOPF_FREEZE_DEV (-want +got):\n%s", args, diff)
			}
		}
		mustRun(t, "peers", "resume")
		if left := records(); len(left) > 0 {
			t.Errorf("CLI-01: records after resume = %v, want none", left)
		}
	})

	// PEER-62: freeze changes only namespaces that match the pattern.
	mustRun(t, "peers", "freeze", "-t", "60", "-i", "me", "-n", "team-*")
	want := map[string]int{"team-a": 1, "team-b": 1, "other": 0}
	got := map[string]int{}
	must(t, yaml.Unmarshal([]byte(mustRun(t, "peers", "list", "-n", "*", "-o", "yaml")), &objects))
	for _, o := range objects {
		got[o.Namespace] = len(o.Peers)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("PEER-62: number of records (-want +got):\n%s", diff)
	}

	// The list shows the state of expired and unreadable records.
	object := &v1.ClusterKopfPeering{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	must(t, k8s.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status": {"old": {"lastseen": "2020-01-01T00:00:00Z"}, "junk": 5}}`))))
	states := map[string]string{}
	must(t, json.Unmarshal([]byte(mustRun(t, "peers", "list", "-o", "json")), &objects))
	for _, p := range objects[0].Peers {
		states[p.Identity] = p.State
	}
	if diff := cmp.Diff(map[string]string{"x": "live", "old": "dead", "junk": "unreadable"}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
}

func fails(t *testing.T, part string, args ...string) {
	t.Helper()
	if _, err := kopf(t, args...); err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%v: got error %v, want %s", args, err, part)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
