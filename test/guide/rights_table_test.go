package guide

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var update = flag.Bool("update", false, "write the table of permissions into docs/deployment.md")

// A featureRow is a row of the table of permissions.
type featureRow struct {
	feature string
	options []kopf.Option
	equal   [][]kopf.Option // options of the other features of the row, which need the same permissions
	rights  rights.Options
	isWhole bool // whether the row shows all permissions of the operator, instead of those in addition to the first row
}

type looseDatabase = kopf.Request[*unstructured.Unstructured]

func featureRows() []featureRow {
	kind := func(options ...kopf.ResourceOption) *kopf.Resource[*unstructured.Unstructured] {
		return kopf.For(kopf.Unstructured(databaseKind), options...)
	}
	handled := func(options ...kopf.ResourceOption) *kopf.Resource[*unstructured.Unstructured] {
		return kind(options...).OnCreate("provision", func(context.Context, *looseDatabase) error { return nil })
	}
	with := func(options ...kopf.Option) []kopf.Option { return append(options, handled()) }
	indexed := kind()
	kopf.IndexBy(indexed, "sizes", func(context.Context, *looseDatabase) (map[string]int, error) { return nil, nil })
	databases := func(metav1.APIResource) kopf.Option { return handled() }
	allNamespaces := func(*corev1.Namespace) bool { return true }
	unused := struct{ client.Client }{}
	none := func(context.Context, client.Object) []reconcile.Request { return nil }
	return []featureRow{
		{feature: "each kind with handlers that store progress", options: with(), isWhole: true},
		{
			feature: "only `OnEvent` without `WriteChanges`, or `IndexBy` for the kind", isWhole: true,
			options: []kopf.Option{kind().OnEvent("watch", func(context.Context, *looseDatabase) error { return nil })},
			equal:   [][]kopf.Option{{indexed}},
		},
		{
			feature: "only `Validate` or `Mutate` for the kind", isWhole: true,
			options: []kopf.Option{kind().Validate("check", noAdmission)},
			equal:   [][]kopf.Option{{kind().Mutate("complete", noAdmission)}},
		},
		{feature: "`Owns`", options: []kopf.Option{reconciled(kind()).Owns(&corev1.Service{})}},
		{
			feature: "`Watches`, `WatchesMetadata`", options: []kopf.Option{reconciled(kind()).Watches(&corev1.Secret{}, none)},
			equal: [][]kopf.Option{{reconciled(kind()).WatchesMetadata(&corev1.Secret{}, none)}},
		},
		{
			feature: "`OnEventAbout` for the pods of a Deployment",
			options: []kopf.Option{handled().OnEventAbout("pods", clusterevents.Selector{
				About: []client.Object{&corev1.Pod{}}, Through: []client.Object{&appsv1.ReplicaSet{}, &appsv1.Deployment{}},
			}, func(context.Context, *looseDatabase, *corev1.Event) error { return nil })},
		},
		{feature: "`Needs(&appsv1.Deployment{}, \"get\", \"create\")`", options: with(kopf.Needs(&appsv1.Deployment{}, "get", "create"))},
		{feature: "`WithNamespaces` with wildcards, `WithNamespaceFunc`", options: with(kopf.WithNamespaces("team-*")), equal: [][]kopf.Option{with(kopf.WithNamespaceFunc(allNamespaces))}},
		{feature: "`WhenServed`, `ForKinds`", options: []kopf.Option{handled(kopf.WhenServed())},
			equal: [][]kopf.Option{{kopf.ForKinds(kopf.Kinds("databases.example.com"), databases)}}},
		{feature: "`WithPeering` for the cluster", options: with(kopf.WithPeering(peering.Options{Name: "databases"}))},
		{
			feature: "`WithWebhooks` with `Managed` configurations, `SelfManaged` certificates", rights: rights.Options{Namespace: "databases-system"},
			options: with(kopf.WithWebhooks(webhooks.Options{
				Name: "databases.example.com", Configurations: webhooks.Managed, Certificates: webhooks.SelfManaged{}, Namespace: "databases-system",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Name: "databases"}},
			})),
		},
		{feature: "`WithRemote` with `progress.SideObjects`", options: with(kopf.WithRemote(&progress.SideObjects{Client: unused, Reader: unused}))},
		{feature: "`WithSharding`", options: with(kopf.WithSharding(sharding.ControllerRing("databases", sharding.LeaseNamespace("databases-system"))))},
		{feature: "`WithSharding` with `sharding.ServerSide`", options: with(kopf.WithSharding(sharding.ServerSide("databases", 0, 3, sharding.LeaseNamespace("databases-system"))))},
		{feature: "`WithRollout`", options: with(kopf.WithRollout(rollout.Options{Namespace: "databases-system"}))},
		{feature: "leader election", rights: rights.Options{LeaderElection: true, Namespace: "databases-system"}, options: with()},
	}
}

func noAdmission(context.Context, *webhooks.Request[*unstructured.Unstructured]) error { return nil }

func reconciled(r *kopf.Resource[*unstructured.Unstructured]) *kopf.Resource[*unstructured.Unstructured] {
	return r.OnReconcile("compare", func(context.Context, *looseDatabase) error { return nil })
}

// databaseResources are the resources of the databases in the pages.
var databaseResources = []metav1.APIResource{
	{Group: "example.com", Version: "v1", Kind: "Database", Name: "databases", SingularName: "database", Namespaced: true, Verbs: []string{"get", "list", "watch", "patch"}},
	{Group: "example.com", Version: "v1", Kind: "Database", Name: "databases/status", Namespaced: true, Verbs: []string{"get", "patch"}},
}

// neededFor returns the permissions that WriteRights writes for a row.
func neededFor(t *testing.T, row featureRow) []rbac.Need {
	t.Helper()
	row.rights.Name, row.rights.Kinds = "databases", databaseResources
	var roles bytes.Buffer
	if err := kopf.WriteRights(&roles, clientgoscheme.Scheme, row.rights, row.options...); err != nil {
		t.Fatalf("%s: %v", row.feature, err)
	}
	needs, err := rbac.ReadRoles(&roles)
	if err != nil {
		t.Fatalf("%s: %v\n%s", row.feature, err, roles.String())
	}
	return needs
}

// The table of permissions is that of the code. "go test ./test/guide -run RightsTable -update" writes it.
func TestDeploymentPage_RightsTable(t *testing.T) {
	const begin, end = "| feature | permissions |\n| --- | --- |\n", "\n\n"
	text, err := os.ReadFile(deploymentPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table with the head %q", deploymentPage, begin)
	}
	var rows []string
	base := neededFor(t, featureRows()[0])
	for _, row := range featureRows() {
		var cells []string
		needs := neededFor(t, row)
		for _, options := range row.equal {
			other := row
			other.options = options
			if diff := cmp.Diff(needs, neededFor(t, other)); diff != "" {
				t.Errorf("%s: the features need different permissions:\n%s", row.feature, diff)
			}
		}
		for _, n := range needs {
			if !row.isWhole {
				n.Verbs = missingVerbs(base, n)
			}
			if len(n.Verbs) > 0 {
				cells = append(cells, cellOf(n))
			}
		}
		prefix := "in addition "
		if row.isWhole {
			prefix = ""
		}
		rows = append(rows, fmt.Sprintf("| %s | %s%s |", row.feature, prefix, strings.Join(cells, "; ")))
	}
	want := strings.Join(rows, "\n")
	switch {
	case got == want:
	case *update:
		if err := os.WriteFile(deploymentPage, []byte(before+begin+want+end+after), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is outdated: write it with go test ./test/guide -run RightsTable -update\ngot:\n%s\nwant:\n%s", deploymentPage, got, want)
	}
}

// The roles of the page are those that WriteRights writes for its operator, which TestDeploymentPage_PermissionsAreSufficient runs with them.
func TestDeploymentPage_RolesAreGenerated(t *testing.T) {
	row := featureRows()[0]
	row.rights.LeaderElection, row.rights.Namespace = true, "databases-system"
	var onPage []rbac.Need
	for name, obj := range manifests(t, deploymentPage) {
		if !strings.HasPrefix(name, "ClusterRole ") && !strings.HasPrefix(name, "Role ") {
			continue
		}
		text, err := sigsyaml.Marshal(obj.Object)
		if err != nil {
			t.Fatal(err)
		}
		needs, err := rbac.ReadRoles(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		onPage = append(onPage, needs...)
	}
	if diff := cmp.Diff(neededFor(t, row), rbac.Merge(onPage)); diff != "" {
		t.Errorf("WriteRights (-) and the page (+) have different rules:\n%s", diff)
	}
}

func missingVerbs(granted []rbac.Need, n rbac.Need) (verbs []string) {
	for _, verb := range n.Verbs {
		isGranted := slices.ContainsFunc(granted, func(other rbac.Need) bool {
			return other.Group == n.Group && other.Resource == n.Resource && other.Namespace == n.Namespace && slices.Contains(other.Verbs, verb)
		})
		if !isGranted {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func cellOf(n rbac.Need) string {
	text := fmt.Sprintf("`%s` %s", strings.Join(n.Verbs, ", "), n.QualifiedResource())
	if n.Name != "" {
		text += fmt.Sprintf(" (only `%s`)", n.Name)
	}
	if n.Namespace != "" {
		text += " in " + n.Namespace
	}
	return text
}

// Each permission of the operators of the pages is removed in turn: the operator names exactly this permission at its start.
func TestPages_RemovedPermissions(t *testing.T) {
	if testing.Short() {
		t.Skip("the test needs an API server")
	}
	g := NewWithT(t)
	crds := envtest.CRDInstallOptions{Paths: []string{"../../examples/18-conditions/config/crd", "testdata"}}
	_, err := envtest.InstallCRDs(cfg, crds)
	g.Expect(err).NotTo(HaveOccurred())
	loose := func(context.Context, *looseDatabase) error { return nil }
	count := 0
	for name, operator := range map[string]func() []kopf.Option{
		"deployment, getting-started": func() []kopf.Option { return featureRows()[0].options },
		"coming-from-kopf":            func() []kopf.Option { return []kopf.Option{migrated(loose, loose, loose)} },
		"coming-from-a-reconciler":    func() []kopf.Option { return []kopf.Option{handlersOf(&Sites{})} },
		"with a child":                func() []kopf.Option { return (&Buckets{}).operator() },
		"with a reconciler": func() []kopf.Option {
			return []kopf.Option{wrapped(&SiteReconciler{}), kopf.Needs(&corev1.ConfigMap{}, "update")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := singleVerbs(neededFor(t, featureRow{options: operator()}))
			for i := range all {
				checkNamed(t, operator, all, i)
				count++
			}
		})
	}
	t.Logf("%d permissions were removed one by one", count)
}

func singleVerbs(needs []rbac.Need) (single []rbac.Need) {
	for _, n := range needs {
		for _, verb := range n.Verbs {
			n.Verbs = []string{verb}
			single = append(single, n)
		}
	}
	return single
}

// checkNamed starts an operator without one of its permissions, and checks that it names exactly this one.
func checkNamed(t *testing.T, operator func() []kopf.Option, all []rbac.Need, removed int) {
	t.Helper()
	g := NewWithT(t)
	var roles bytes.Buffer
	others := slices.Concat(all[:removed], all[removed+1:])
	g.Expect(rbac.WriteRoles(&roles, rbac.Options{Name: "operator"}, others)).To(Succeed())
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	g.Expect(os.WriteFile(file, roles.Bytes(), 0o600)).To(Succeed())
	cluster := &kopftest.Cluster{Client: newClient(t), Config: cfg, Scheme: clientgoscheme.Scheme}

	var logged lines
	options := ctrl.Options{Logger: funcr.New(func(prefix, args string) { logged.add(prefix + args) }, funcr.Options{})}
	options.Metrics.BindAddress = "0"
	options.Controller.SkipNameValidation = new(true)
	mgr, err := ctrl.NewManager(cluster.WithRights(t, file).Config, options)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(kopf.SetupWithManager(mgr, operator()...)).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			logged.add(err.Error())
		}
	}()
	g.Eventually(func() (named []string) {
		for _, n := range all {
			if strings.Contains(logged.all(), n.Verbs[0]+" "+n.QualifiedResource()+" in the cluster") {
				named = append(named, n.String())
			}
		}
		return named
	}).WithTimeout(patience).Should(Equal([]string{all[removed].String()}), logged.all)
	stop()
	<-ended
}
