package rbac

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Options name the roles that [WriteRoles] writes, and their subject.
type Options struct {
	Name string
	// ServiceAccount and Namespace identify the operator. Without a ServiceAccount, no bindings are written.
	ServiceAccount, Namespace string
}

// WriteRoles writes roles as YAML: a ClusterRole for permissions in the cluster, and a Role for each namespace. If ServiceAccount is set,
// it writes the ServiceAccount and the role bindings, too.
func WriteRoles(w io.Writer, o Options, needs []Need) error {
	byNamespace := map[string][]Need{}
	var namespaces []string
	for _, n := range withoutCovered(Merge(needs)) {
		if byNamespace[n.Namespace] == nil {
			namespaces = append(namespaces, n.Namespace)
		}
		byNamespace[n.Namespace] = append(byNamespace[n.Namespace], n)
	}
	var documents []string
	if o.ServiceAccount != "" {
		documents = append(documents, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: %s\n  namespace: %s\n", quote(o.ServiceAccount), quote(o.Namespace)))
	}
	for _, namespace := range namespaces {
		documents = append(documents, head("Role", o.Name, namespace)+"rules:\n"+Rules(byNamespace[namespace]))
		if o.ServiceAccount != "" {
			documents = append(documents, head("RoleBinding", o.Name, namespace)+binding(o, namespace))
		}
	}
	_, err := io.WriteString(w, strings.Join(documents, "---\n"))
	return err
}

// withoutCovered drops verbs that a broader permission already grants, for the cluster or for all objects.
func withoutCovered(needs []Need) (uncovered []Need) {
	for _, n := range needs {
		var broader []rbacv1.PolicyRule
		for _, other := range needs {
			isSame := other.Namespace == n.Namespace && other.Name == n.Name && other.Group == n.Group && other.Resource == n.Resource
			if !isSame && (other.Namespace == "" || other.Namespace == n.Namespace) {
				broader = append(broader, other.Rule())
			}
		}
		if n.Verbs = Missing(broader, n); len(n.Verbs) > 0 {
			uncovered = append(uncovered, n)
		}
	}
	return uncovered
}

// clusterKind returns the cluster-wide variant of a kind if the namespace is empty.
func clusterKind(kind, namespace string) string {
	if namespace == "" {
		return "Cluster" + kind
	}
	return kind
}

func head(kind, name, namespace string) string {
	text := fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s\n", clusterKind(kind, namespace), quote(name))
	if namespace != "" {
		text += "  namespace: " + quote(namespace) + "\n"
	}
	return text
}

func binding(o Options, namespace string) string {
	return fmt.Sprintf("roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s\nsubjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s\n",
		clusterKind("Role", namespace), quote(o.Name), quote(o.ServiceAccount), quote(o.Namespace))
}

// Advice returns the rules for permissions as YAML, under the roles they belong in.
func Advice(needs []Need) string {
	var text strings.Builder
	namespace, isFirst := "", true
	for _, n := range Merge(needs) {
		if isFirst || n.Namespace != namespace {
			where := "a ClusterRole"
			if n.Namespace != "" {
				where = "a Role in the namespace " + n.Namespace
			}
			fmt.Fprintf(&text, "# in %s:\n", where)
			namespace, isFirst = n.Namespace, false
		}
		text.WriteString(Rules([]Need{n}))
	}
	return text.String()
}

// Rules returns permissions as a role's rules in YAML, with the reasons as comments.
func Rules(needs []Need) string {
	var text strings.Builder
	for _, n := range needs {
		fmt.Fprintf(&text, "- apiGroups: [%s]", quote(n.Group))
		if n.Reason != "" {
			text.WriteString(" # " + n.Reason)
		}
		fmt.Fprintf(&text, "\n  resources: [%s]\n", quote(n.Resource))
		if n.Name != "" {
			fmt.Fprintf(&text, "  resourceNames: [%s]\n", quote(n.Name))
		}
		verbs := make([]string, len(n.Verbs))
		for i, verb := range n.Verbs {
			verbs[i] = quote(verb)
		}
		fmt.Fprintf(&text, "  verbs: [%s]\n", strings.Join(verbs, ", "))
	}
	return text.String()
}

// quote returns a string as YAML.
func quote(s string) string {
	if plain, err := sigsyaml.Marshal(s); err == nil && string(plain) == s+"\n" {
		return s
	}
	text, _ := json.Marshal(s) // a string always has a JSON form
	return string(text)
}

// ReadRoles returns the permissions granted by the roles in YAML documents, merged with [Merge]. Other objects are ignored. If namespaces
// are passed, a ClusterRole's permissions apply only there, and a Role may omit its namespace. ReadRoles fails for aggregated roles, for
// URL rules, and if there are no roles.
func ReadRoles(r io.Reader, namespaces ...string) (needs []Need, err error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(r))
	found := false
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var roles []rbacv1.ClusterRole
		if err == nil {
			roles, err = rolesIn(text)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the roles: %w", err)
		}
		for _, role := range roles {
			found = true
			some, err := needsOfRole(role, namespaces)
			if err != nil {
				return nil, err
			}
			needs = append(needs, some...)
		}
	}
	if !found {
		return nil, errors.New("there are no roles: pass a file with a ClusterRole or a Role of rbac.authorization.k8s.io")
	}
	return Merge(needs), nil
}

// rolesIn returns the roles in a YAML document, which may be a list.
func rolesIn(text []byte) (roles []rbacv1.ClusterRole, err error) {
	var kind struct {
		metav1.TypeMeta `json:",inline"`
		Items           []map[string]any `json:"items"`
	}
	if err := sigsyaml.Unmarshal(text, &kind); err != nil {
		return nil, err
	}
	isRBAC := strings.HasPrefix(kind.APIVersion, rbacv1.GroupName+"/")
	switch {
	case kind.Kind == "List" || isRBAC && strings.HasSuffix(kind.Kind, "List"):
		for _, item := range kind.Items {
			if item["kind"] == nil {
				item["apiVersion"], item["kind"] = kind.APIVersion, strings.TrimSuffix(kind.Kind, "List")
			}
			inner, err := sigsyaml.Marshal(item)
			if err != nil {
				return nil, err
			}
			some, err := rolesIn(inner)
			if err != nil {
				return nil, err
			}
			roles = append(roles, some...)
		}
	case isRBAC && (kind.Kind == "ClusterRole" || kind.Kind == "Role"):
		var role rbacv1.ClusterRole
		if err := sigsyaml.UnmarshalStrict(text, &role); err != nil {
			return nil, err
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func needsOfRole(role rbacv1.ClusterRole, namespaces []string) (needs []Need, err error) {
	switch {
	case role.AggregationRule != nil:
		return nil, fmt.Errorf("the ClusterRole %q is aggregated: pass the roles that it contains", role.Name)
	case role.Kind == "Role" && role.Namespace != "":
		namespaces = []string{role.Namespace}
	case role.Kind == "Role" && len(namespaces) == 0:
		return nil, fmt.Errorf("the Role %q has no namespace: add it, or pass --namespace", role.Name)
	case len(namespaces) == 0:
		namespaces = []string{""}
	}
	for _, rule := range role.Rules {
		switch {
		case len(rule.NonResourceURLs) > 0:
			return nil, fmt.Errorf("the role %q has a rule for URLs, which cannot be compared: remove it", role.Name)
		case len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Verbs) == 0:
			return nil, fmt.Errorf("the role %q has a rule without apiGroups, resources or verbs: complete it", role.Name)
		}
		for _, namespace := range namespaces {
			needs = append(needs, NeedsOf(rule, namespace)...)
		}
	}
	return needs, nil
}

// NeedsOf returns the permissions that a rule grants.
func NeedsOf(rule rbacv1.PolicyRule, namespace string) (needs []Need) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, name := range names {
				needs = append(needs, Need{Group: group, Resource: resource, Name: name, Namespace: namespace, Verbs: slices.Clone(rule.Verbs)})
			}
		}
	}
	return needs
}
