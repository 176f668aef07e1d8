package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

func newRBAC() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rbac",
		Short: "Verify the permissions of operators",
	}
	cmd.AddCommand(newRBACVerify())
	return cmd
}

// rbacVerify contains the flags of the command.
type rbacVerify struct {
	cluster
	form       output
	user       string
	groups     []string
	namespaces []string
	against    []string
	excess     bool
}

func newRBACVerify() *cobra.Command {
	var v rbacVerify
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Compare the roles in files with the permissions of a user",
		Long: `The files contain the roles that an operator needs, for example those that WriteRights of kopf-runtime has written. "-" is the standard input.
The command prints a line for each rule. It fails if a permission is missing, or, with --excess, if the user has other permissions.

The default user is the user of the kubeconfig. --as selects another user, and requires the permission to impersonate this user.
With --against, the command compares the files with the roles in other files, and needs no cluster.`,
		Example: `  # Verify that your user has all permissions, to run the operator outside of the cluster:
  kopf rbac verify config/rbac/rbac.yaml
  # Verify that the service account of the operator has exactly these permissions:
  kopf rbac verify config/rbac/rbac.yaml --as system:serviceaccount:databases-system:databases --excess
  # Verify that an existing role contains all permissions:
  kopf rbac verify config/rbac/rbac.yaml --against role.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { return v.run(cmd, files) },
	}
	fs := cmd.Flags()
	v.bind(fs)
	v.form.bind(fs)
	fs.StringVar(&v.user, "as", "", "user or service account whose permissions are verified: system:serviceaccount:<namespace>:<name>")
	fs.StringSliceVar(&v.groups, "as-group", nil, "group of the user of --as; repeatable")
	fs.StringSliceVarP(&v.namespaces, "namespace", "n", nil, "namespace in which RoleBindings bind the ClusterRoles, and namespace of Roles that do not set one; repeatable (default: ClusterRoles apply to the whole cluster)")
	fs.StringSliceVar(&v.against, "against", nil, "file with the roles to compare with, instead of a cluster; repeatable")
	fs.BoolVar(&v.excess, "excess", false, "also report permissions that the files do not contain, both cluster-wide and in the namespaces that occur in the files")
	return cmd
}

// An rbacLine is a line of the output.
type rbacLine struct {
	State     string   `json:"state"` // granted, missing or excess
	Verbs     []string `json:"verbs"`
	Group     string   `json:"group"`
	Resource  string   `json:"resource"`
	Name      string   `json:"name,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
}

func (v *rbacVerify) run(cmd *cobra.Command, files []string) error {
	if err := v.check(files); err != nil {
		return err
	}
	needs, err := v.readRoles(cmd.InOrStdin(), files)
	if err != nil {
		return err
	}
	var missing, excess []rbac.Need
	if len(v.against) > 0 {
		missing, excess, err = v.compareFiles(cmd.InOrStdin(), needs)
	} else {
		missing, excess, err = v.compareUser(cmd.Context(), needs)
	}
	if err != nil {
		return err
	}
	lines := rbacLines(needs, missing, excess)
	if err := v.form.write(cmd.OutOrStdout(), lines, func() [][]string { return rbacRows(lines) }); err != nil {
		return err
	}
	var problems []error
	if len(missing) > 0 {
		problems = append(problems, fmt.Errorf("permissions are missing: add these rules:\n%s", strings.TrimSuffix(rbac.Advice(missing), "\n")))
	}
	if len(excess) > 0 {
		problems = append(problems, errors.New("permissions are not needed: remove the rules with the state excess from the roles"))
	}
	return errors.Join(problems...)
}

func (v *rbacVerify) readsStdinTwice(files []string) bool {
	count := 0
	for _, file := range append(slices.Clone(files), v.against...) {
		if file == "-" {
			count++
		}
	}
	return count > 1
}

func (v *rbacVerify) check(files []string) error {
	switch {
	case v.user != "" && len(v.against) > 0:
		return errors.New("--as and --against are mutually exclusive: remove one")
	case len(v.groups) > 0 && v.user == "":
		return errors.New("--as-group needs --as: add the user")
	case v.readsStdinTwice(files):
		return errors.New("\"-\" is given more than once: the standard input can be read only once")
	case slices.Contains(v.namespaces, ""):
		return errors.New("--namespace is empty: set a name, or remove the flag to verify the permissions in the whole cluster")
	}
	return v.form.check()
}

// readRoles returns the permissions in files.
func (v *rbacVerify) readRoles(stdin io.Reader, files []string) (needs []rbac.Need, err error) {
	for _, file := range files {
		var some []rbac.Need
		if file == "-" {
			some, err = rbac.ReadRoles(stdin, v.namespaces...)
		} else {
			some, err = v.readRoleFile(file)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		needs = append(needs, some...)
	}
	return rbac.Merge(needs), nil
}

func (v *rbacVerify) readRoleFile(name string) ([]rbac.Need, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the file was only read
	return rbac.ReadRoles(file, v.namespaces...)
}

func (v *rbacVerify) compareFiles(stdin io.Reader, needs []rbac.Need) (missing, excess []rbac.Need, err error) {
	granted, err := v.readRoles(stdin, v.against)
	if err != nil {
		return nil, nil, err
	}
	missing = notGranted(needs, granted)
	if v.excess {
		excess = notGranted(granted, needs)
	}
	return missing, excess, nil
}

// notGranted returns the needs, reduced to the verbs that no granted permission covers.
func notGranted(needs, granted []rbac.Need) (missing []rbac.Need) {
	for _, n := range needs {
		var rules []rbacv1.PolicyRule
		for _, g := range granted {
			if g.Namespace == "" || g.Namespace == n.Namespace {
				rules = append(rules, g.Rule())
			}
		}
		if n.Verbs = rbac.Missing(rules, n); len(n.Verbs) > 0 {
			missing = append(missing, n)
		}
	}
	return missing
}

func (v *rbacVerify) compareUser(ctx context.Context, needs []rbac.Need) (missing, excess []rbac.Need, err error) {
	config, err := v.config().ClientConfig()
	if err != nil {
		return nil, nil, accessError(err)
	}
	if v.user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: v.user, Groups: v.groups}
	}
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, nil, accessError(err)
	}
	if missing, err = rbac.Review(ctx, client, needs); err != nil || !v.excess {
		return missing, nil, err
	}
	namespaces := []string{""}
	for _, n := range needs {
		if !slices.Contains(namespaces, n.Namespace) {
			namespaces = append(namespaces, n.Namespace)
		}
	}
	var granted []rbac.Need
	for _, namespace := range namespaces {
		rules, err := rbac.RulesOf(ctx, client, namespace)
		if err != nil {
			return nil, nil, err
		}
		for _, rule := range rules {
			for _, n := range rbac.NeedsOf(rule, namespace) {
				if !isForAllUsers(n) {
					granted = append(granted, n)
				}
			}
		}
	}
	return missing, removeRedundant(rbac.Merge(notGranted(granted, needs))), nil
}

// isForAllUsers reports whether a permission comes from a default ClusterRole of Kubernetes. All users have system:basic-user.
// All service accounts have system:cluster-trust-bundle-discovery.
func isForAllUsers(n rbac.Need) bool {
	return n.Group == "certificates.k8s.io" && n.Resource == "clustertrustbundles" && slices.Equal(n.Verbs, []string{"get", "list", "watch"}) ||
		n.Group == "authorization.k8s.io" && (n.Resource == "selfsubjectaccessreviews" || n.Resource == "selfsubjectrulesreviews") ||
		n.Group == "authentication.k8s.io" && n.Resource == "selfsubjectreviews"
}

// removeRedundant removes the permissions in a namespace that are also granted cluster-wide.
func removeRedundant(needs []rbac.Need) []rbac.Need {
	inCluster := func(n rbac.Need) bool {
		n.Namespace = ""
		return slices.ContainsFunc(needs, func(other rbac.Need) bool { return other.String() == n.String() })
	}
	return slices.DeleteFunc(slices.Clone(needs), func(n rbac.Need) bool { return n.Namespace != "" && inCluster(n) })
}

// rbacLines returns the lines of the output. A needed rule with granted and missing verbs has two lines.
func rbacLines(needs, missing, excess []rbac.Need) (lines []rbacLine) {
	add := func(state string, n rbac.Need) {
		if len(n.Verbs) > 0 {
			lines = append(lines, rbacLine{state, n.Verbs, n.Group, n.Resource, n.Name, n.Namespace})
		}
	}
	for _, n := range needs {
		lacks := n
		lacks.Verbs = nil
		for _, m := range missing {
			if m.Group == n.Group && m.Resource == n.Resource && m.Name == n.Name && m.Namespace == n.Namespace {
				lacks.Verbs = m.Verbs
			}
		}
		n.Verbs = slices.DeleteFunc(slices.Clone(n.Verbs), func(verb string) bool { return slices.Contains(lacks.Verbs, verb) })
		add("granted", n)
		add("missing", lacks)
	}
	for _, n := range excess {
		add("excess", n)
	}
	return lines
}

func rbacRows(lines []rbacLine) [][]string {
	rows := [][]string{{"STATE", "VERBS", "RESOURCE", "NAMESPACE", "NAME"}}
	orDash := func(text string) string {
		if text == "" {
			return "-"
		}
		return text
	}
	for _, v := range lines {
		rows = append(rows, []string{v.State, strings.Join(v.Verbs, ","), rbac.Need{Group: v.Group, Resource: v.Resource}.QualifiedResource(), orDash(v.Namespace), orDash(v.Name)})
	}
	return rows
}
