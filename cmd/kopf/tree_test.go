package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// owned returns an object with owner references. The first owner is the controller, and is the last reference.
func owned(apiVersion, kind, name string, content map[string]any, owners ...*unstructured.Unstructured) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(obj.Object, content)
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetName(name)
	var refs []metav1.OwnerReference
	for i, owner := range owners {
		refs = append([]metav1.OwnerReference{{
			APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: new(i == 0),
		}}, refs...)
	}
	obj.SetOwnerReferences(refs)
	return obj
}

func TestTree(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cluster := kopftest.Environment(t).ForTest(t)
	kubeconfig(t, cluster.Config)
	create := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		cluster.Create(t, obj)
		return obj
	}
	top := create(owned("v1", "Secret", "top", map[string]any{"stringData": map[string]any{"password": "confidential"}}))
	missing := owned("v1", "ServiceAccount", "missing", nil)
	missing.SetUID("00000000-0000-0000-0000-000000000000")
	orders := create(owned("v1", "ConfigMap", "orders", nil, top, missing))
	labels := map[string]any{"app": "web"}
	container := []any{map[string]any{"name": "web", "image": "web"}}
	web := create(owned("apps/v1", "Deployment", "web", map[string]any{
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": container},
		}},
		"status": map[string]any{"observedGeneration": int64(1), "replicas": int64(1), "updatedReplicas": int64(1), "conditions": []any{map[string]any{
			"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow",
		}}},
	}, orders))
	create(owned("v1", "Pod", "web-1", map[string]any{
		"spec":   map[string]any{"containers": container},
		"status": map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	}, web))
	create(owned("v1", "Secret", "password", map[string]any{"stringData": map[string]any{"password": "confidential"}}, orders))
	runner := owned("v1", "ServiceAccount", "runner", nil, orders)
	runner.SetFinalizers([]string{"example.com/backup", "example.com/other"})
	create(runner)
	create(owned("v1", "ConfigMap", "settings", nil, runner))
	create(owned("v1", "ConfigMap", "unrelated", nil))
	create(owned("v1", "ServiceAccount", "shared", nil, web, runner))
	must(t, cluster.Client.Delete(t.Context(), runner))

	gaps, age := regexp.MustCompile(`(?m) +$|(\S) {2,}([^ ├└│])`), regexp.MustCompile(` \d+s `)
	show := func(args ...string) string {
		t.Helper()
		out := mustRun(t, append([]string{"tree", "-n", cluster.Namespace}, args...)...)
		if strings.Contains(out, "confidential") {
			t.Errorf("the tree contains a value of a Secret:\n%s", out)
		}
		return age.ReplaceAllString(gaps.ReplaceAllString(gaps.ReplaceAllString(out, "$1 $2"), "$1 $2"), " AGE ")
	}
	equal := func(name, want, got string) {
		t.Helper()
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	equal("tree", `
OBJECT STATE AGE MESSAGE
Secret/top - AGE -
└─ ConfigMap/orders - AGE also owned by ServiceAccount/missing
   ├─ Deployment/web Failed AGE Progress deadline exceeded
   │  ├─ Pod/web-1 Ready AGE -
   │  └─ ServiceAccount/shared - AGE also owned by ServiceAccount/runner
   ├─ Secret/password - AGE -
   └─ ServiceAccount/runner Deleting AGE blocked by finalizers: example.com/backup, example.com/other
      ├─ ConfigMap/settings - AGE -
      └─ ServiceAccount/shared - AGE also owned by Deployment/web
`, show("configmap", "orders"))
	equal("restricted kinds", `
OBJECT STATE AGE MESSAGE
Secret/top - AGE -
└─ ConfigMap/orders - AGE also owned by ServiceAccount/missing
   └─ Deployment/web Failed AGE Progress deadline exceeded
      └─ Pod/web-1 Ready AGE -
`, show("configmap", "orders", "--kinds", "deployments.apps,pods"))

	var found tree
	must(t, json.Unmarshal([]byte(show("configmaps", "orders", "-o", "json")), &found))
	if len(found.Owners) != 2 || found.Owners[0].Name != "top" || found.Owners[1].State != "Missing" || len(found.Dependents) != 3 || len(found.Notes) > 0 {
		t.Errorf("got %+v, want two owners, of which one is missing, three dependents, and no notes", found)
	}
	fails(t, `"none" not found`, "tree", "configmap", "none", "-n", cluster.Namespace)
	fails(t, `--kinds: the API server has no kind "tables"`, "tree", "configmap", "orders", "-n", cluster.Namespace, "--kinds", "tables")

	// Kinds without permission are named in notes.
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tree"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tree"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
	}
	for _, obj := range []client.Object{role, binding} {
		must(t, cluster.Client.Create(t.Context(), obj))
	}
	ann := rest.CopyConfig(cluster.Config)
	ann.Impersonate.UserName = "ann"
	kubeconfig(t, ann)
	var text string
	eventually(t, func() bool { // the API server applies new roles with a delay
		text, _ = kopf(t, "tree", "configmap", "orders", "-n", cluster.Namespace)
		return strings.Contains(text, "Deployment/web")
	})
	for _, part := range []string{"Deployment/web   Unknown", "note: no permission to list: ", "Pod, ", "Job.batch", "note: no permission to read: Deployment.apps, Secret"} {
		if !strings.Contains(text, part) {
			t.Errorf("the tree does not contain %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "Secret/password") || strings.Contains(text, "ConfigMap,") {
		t.Errorf("the tree contains kinds without permission, or notes about others:\n%s", text)
	}
}

// An object that owns itself through another object appears twice, and a cluster-scoped object has dependents in all namespaces.
func TestTree_CyclesAndClusterScope(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	cluster := kopftest.Environment(t).ForTest(t)
	kubeconfig(t, cluster.Config)
	one := owned("v1", "ConfigMap", "one", nil)
	cluster.Create(t, one)
	two := owned("v1", "ConfigMap", "two", nil, one)
	cluster.Create(t, two)
	one.SetOwnerReferences(owned("v1", "ConfigMap", "one", nil, two).GetOwnerReferences())
	must(t, cluster.Client.Update(t.Context(), one))
	text := mustRun(t, "tree", "configmap", "one", "-n", cluster.Namespace)
	if strings.Count(text, "its dependents are shown above") != 1 {
		t.Errorf("got\n%s\nwant a cycle that ends with a message", text)
	}

	class := owned("v1", "Namespace", "class", nil)
	cluster.Create(t, class)
	cluster.Create(t, owned("v1", "Secret", "inside", nil, class))
	if text := mustRun(t, "tree", "namespace", "class"); !strings.Contains(text, "└─ Secret/inside") {
		t.Errorf("got\n%s\nwant a dependent in a namespace", text)
	}
	fails(t, "have no namespace: remove --namespace", "tree", "namespace", "class", "-n", "x")
}

func TestTree_States(t *testing.T) {
	conditions := func(pairs ...string) *unstructured.Unstructured {
		obj := sample("orders", nil)
		all := []any{}
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, map[string]any{"type": pairs[i], "status": pairs[i+1], "reason": "Because", "message": "no\x1b[2J\u202edisk"})
		}
		obj.Object["status"] = map[string]any{"conditions": all}
		return obj
	}
	broken := conditions()
	broken.Object["status"] = "none"
	for want, obj := range map[string]*unstructured.Unstructured{
		"": sample("orders", nil), "Unknown": broken, "Ready": conditions("Ready", "True"), "Ready ": conditions("Other", "False"), "Ready  ": conditions(),
		"InProgress": conditions("Ready", "False"), "InProgress ": conditions("Available", "False", "Other", "True"), "InProgress  ": conditions("Succeeded", "Unknown"),
		"Failed": conditions("Available", "False", "Degraded", "True"), "Failed ": conditions("Failed", "True"), "Failed  ": conditions("Stalled", "True"),
	} {
		if state, message := stateOf(obj); state != strings.TrimSpace(want) {
			t.Errorf("state of %v = %q (%s), want %q", obj.Object["status"], state, message, want)
		}
	}

	node := newTreeNode(databaseKind, conditions())
	node.Name, node.State = "a\x1b[31m", "Failed"
	_, node.Message = stateOf(conditions("Failed", "True"))
	var out strings.Builder
	must(t, (&tree{treeNode: *node, Notes: []string{"a\x07"}}).write(&out, time.Now()))
	for _, part := range []string{`Database/a\x1b[31m`, `no\x1b[2J\u202edisk`, `note: a\a`} {
		if !strings.Contains(out.String(), part) || strings.ContainsAny(out.String(), "\x1b\x07\u202e") {
			t.Errorf("the tree does not contain %q, or it contains control characters: %q", part, out.String())
		}
	}
}
