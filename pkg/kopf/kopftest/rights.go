package kopftest

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// UpdateRights is the environment variable that makes [CheckRights] write the file.
const UpdateRights = "KOPF_UPDATE_RIGHTS"

// CheckRights compares a file with the roles that [kopf.WriteRights] writes for an operator with these options, and fails the test if they
// differ. To write the file, set the environment variable [UpdateRights]:
//
//	KOPF_UPDATE_RIGHTS=1 go test ./...
func CheckRights(t testing.TB, file string, scheme *runtime.Scheme, rights rights.Options, options ...kopf.Option) {
	t.Helper()
	var want bytes.Buffer
	if err := kopf.WriteRights(&want, scheme, rights, options...); err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	if os.Getenv(UpdateRights) != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the roles are not confidential
			t.Fatalf("kopftest: %v", err)
		}
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil { //nolint:gosec // the roles are not confidential
			t.Fatalf("kopftest: %v", err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("kopftest: %v: write the file with %s=1 go test", err, UpdateRights)
	}
	if diff := gocmp.Diff(string(got), want.String()); diff != "" {
		t.Errorf("kopftest: %s does not contain the permissions of the operator: write it with %s=1 go test. The file (-) and the permissions (+):\n%s", file, UpdateRights, diff)
	}
}

// WithRights returns a copy of the cluster whose operators run as a new user. This user has exactly the permissions of the roles in a YAML
// file, such as the file of [CheckRights]. A ClusterRole's permissions apply to the whole cluster, and a Role's to its namespace, which
// WithRights creates. Bindings in the file are ignored. The copy's Config has these permissions, but its Client has all permissions. The
// cluster must be an [Environment], because a cluster in memory has no access control.
//
//	cluster.ForTest(t).WithRights(t, "config/rbac/rbac.yaml").Run(t, databases())
func (c *Cluster) WithRights(t testing.TB, file string) *Cluster {
	t.Helper()
	switch {
	case c.server != nil:
		t.Fatalf("kopftest: WithRights needs an Environment, because a cluster in memory has no access control")
	case c.Config == nil:
		t.Fatalf("kopftest: WithRights: the cluster has no Config: use Environment or Main")
	case strings.HasPrefix(c.Config.Impersonate.UserName, prefix):
		t.Fatalf("kopftest: WithRights: the cluster is already restricted: call it on the cluster with all permissions")
	}
	text, err := os.Open(file)
	if err != nil {
		t.Fatalf("kopftest: %v", err)
	}
	defer func() { _ = text.Close() }()
	needs, err := rbac.ReadRoles(text)
	if err != nil {
		t.Fatalf("kopftest: %s: %v", file, err)
	}
	restricted := *c
	restricted.Config = rest.CopyConfig(c.Config)
	restricted.Config.Impersonate = rest.ImpersonationConfig{UserName: prefix + string(uuid.NewUUID()), Groups: []string{"system:authenticated"}}
	c.grant(t, needs, restricted.Config)
	return &restricted
}

// grant creates roles and bindings for a config's user, and waits until the server applies them.
func (c *Cluster) grant(t testing.TB, needs []rbac.Need, user *rest.Config) {
	t.Helper()
	admin, err := kubernetes.NewForConfig(c.Config) // the test's scheme may lack the types
	if err != nil {
		t.Fatalf("kopftest: create a client: %v", err)
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, n := range needs {
		rules[n.Namespace] = append(rules[n.Namespace], n.Rule())
	}
	ctx, name := t.Context(), metav1.ObjectMeta{Name: user.Impersonate.UserName}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name.Name}}
	create := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("kopftest: grant the permissions of the roles: %v", err)
		}
	}
	for namespace, some := range rules {
		if namespace == "" {
			_, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: some}, metav1.CreateOptions{})
			create(err)
			ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name}
			_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
			create(err)
			continue
		}
		_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		create(client.IgnoreAlreadyExists(err))
		_, err = admin.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: name, Rules: some}, metav1.CreateOptions{})
		create(err)
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name}
		_, err = admin.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		create(err)
	}
	granted, err := kubernetes.NewForConfig(user)
	if err != nil {
		t.Fatalf("kopftest: create a client: %v", err)
	}
	var missing []rbac.Need
	err = wait.PollUntilContextTimeout(ctx, pollInterval, grantTimeout, true, func(ctx context.Context) (bool, error) {
		missing, err = rbac.Review(ctx, granted.AuthorizationV1(), needs)
		return len(missing) == 0, err
	})
	if err != nil {
		t.Fatalf("kopftest: wait until the API server applies the roles: %v; these permissions are missing:\n%s", err, rbac.Advice(missing))
	}
}

// grantTimeout limits the wait for permissions, which the API server usually applies in less than a second.
const grantTimeout = 30 * time.Second

// withoutUser returns the request without the user of [Cluster.WithRights].
func withoutUser(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	for _, header := range []string{"Impersonate-User", "Impersonate-Group"} {
		r.Header.Del(header)
	}
	return r
}

// UsedRights returns the permissions that the operator and its handlers have used so far, sorted, with one rule for each resource. Use it
// to find out what to declare with [kopf.Needs]. Only successful requests and those that failed with NotFound or Conflict count.
// Server-side apply needs patch, and create too if it has created the object. UsedRights omits discovery and reviews of the user's own
// permissions, which all users may request.
func (o *Operator) UsedRights() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, n := range rbac.Merge(o.connection.usedPermissions()) {
		rules = append(rules, n.Rule())
	}
	return rules
}

func (l *connection) usedPermissions() []rbac.Need {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.used)
}

// recordUse records the permissions that a successful request needed. NotFound and Conflict count as success.
func (l *connection) recordUse(req request, code int) {
	if req.resource == "" || strings.HasPrefix(req.resource, "selfsubject") || code >= http.StatusBadRequest && code != http.StatusNotFound && code != http.StatusConflict {
		return
	}
	n := rbac.Need{Group: req.group, Resource: req.resource, Verbs: []string{req.verb}}
	if req.subresource != "" {
		n.Resource += "/" + req.subresource
	}
	if req.verb == "apply" {
		if n.Verbs = []string{"patch"}; code == http.StatusCreated {
			n.Verbs = append(n.Verbs, "create")
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = rbac.Merge(append(l.used, n))
}
