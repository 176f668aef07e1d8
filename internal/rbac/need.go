package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Level says how important a permission is.
type Level int

const (
	// Optional permissions make the operator faster or more precise.
	Optional Level = iota
	// Needed permissions are required by a feature, or for some objects.
	Needed
	// Required permissions are those the operator can't start without.
	Required
)

// A Need is a permission for one resource that an operator needs.
type Need struct {
	Group     string // empty for the core group
	Resource  string // with the subresource, such as "databases/status"; "*" for all
	Name      string // of the only object; empty for all objects
	Namespace string // empty for the cluster
	Verbs     []string
	Level     Level
	Reason    string // what the permission is for
}

// String describes the permission in one line.
func (n Need) String() string {
	resource, where := n.QualifiedResource(), "in the cluster"
	if n.Name != "" {
		resource += " named " + n.Name
	}
	if n.Namespace != "" {
		where = "in the namespace " + n.Namespace
	}
	return fmt.Sprintf("%s %s %s", strings.Join(n.Verbs, ", "), resource, where)
}

// QualifiedResource returns the resource as kubectl writes it: "databases.example.com/status".
func (n Need) QualifiedResource() string {
	resource, subresource, hasSub := strings.Cut(n.Resource, "/")
	if n.Group != "" {
		resource += "." + n.Group
	}
	if hasSub {
		resource += "/" + subresource
	}
	return resource
}

// Rule returns an RBAC rule that grants the permission.
func (n Need) Rule() rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{n.Group}, Resources: []string{n.Resource}, Verbs: n.Verbs}
	if n.Name != "" {
		rule.ResourceNames = []string{n.Name}
	}
	return rule
}

// verbOrder is how rules sort their verbs.
var verbOrder = []string{"get", "list", "watch", "create", "update", "patch", "delete"}

func compareVerbs(a, b string) int {
	at := func(verb string) int {
		if i := slices.Index(verbOrder, verb); i >= 0 {
			return i
		}
		return len(verbOrder)
	}
	return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b))
}

// Merge joins the verbs and reasons of permissions for the same resource, namespace and name. The result is sorted, and all its levels are
// [Optional].
func Merge(needs []Need) []Need {
	needs = slices.Clone(needs)
	for i := range needs {
		needs[i].Level = Optional
	}
	return MergeLevels(needs)
}

// MergeLevels joins the verbs and reasons of permissions for the same resource, namespace, name and level. The result is sorted. If several
// levels have the same verb, it is kept only in the highest.
func MergeLevels(needs []Need) (merged []Need) {
	for _, n := range needs {
		i := slices.IndexFunc(merged, func(other Need) bool { return other.isFor(n) && other.Level == n.Level })
		if i < 0 {
			reasons := n.Reason
			n.Verbs, n.Reason = slices.Clone(n.Verbs), ""
			merged = append(merged, n)
			i, n.Reason = len(merged)-1, reasons
		}
		m := &merged[i]
		m.Verbs = append(m.Verbs, n.Verbs...)
		slices.SortFunc(m.Verbs, compareVerbs)
		m.Verbs = slices.Compact(m.Verbs)
		m.addReasons(n.Reason)
	}
	for i := range merged {
		merged[i].Verbs = slices.DeleteFunc(merged[i].Verbs, func(verb string) bool {
			return slices.ContainsFunc(merged, func(other Need) bool {
				return other.isFor(merged[i]) && other.Level > merged[i].Level && slices.Contains(other.Verbs, verb)
			})
		})
	}
	merged = slices.DeleteFunc(merged, func(n Need) bool { return len(n.Verbs) == 0 })
	slices.SortStableFunc(merged, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return merged
}

// isFor reports whether two permissions are for the same resource, namespace and name.
func (n Need) isFor(other Need) bool {
	return other.Group == n.Group && other.Resource == n.Resource && other.Name == n.Name && other.Namespace == n.Namespace
}

const reasonSeparator = "; "

func (n *Need) addReasons(text string) {
	all := strings.Split(n.Reason, reasonSeparator)
	for reason := range strings.SplitSeq(text, reasonSeparator) {
		if !slices.Contains(all, reason) {
			all = append(all, reason)
		}
	}
	n.Reason = strings.Join(slices.DeleteFunc(all, func(reason string) bool { return reason == "" }), reasonSeparator)
}

// Missing returns the permission's verbs that the rules don't grant.
func Missing(rules []rbacv1.PolicyRule, n Need) (verbs []string) {
	for _, verb := range n.Verbs {
		if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return grants(r, n, verb) }) {
			verbs = append(verbs, verb)
		}
	}
	return verbs
}

func grants(r rbacv1.PolicyRule, n Need, verb string) bool {
	hasOne := func(all []string, one string) bool { return slices.Contains(all, "*") || slices.Contains(all, one) }
	_, sub, hasSub := strings.Cut(n.Resource, "/")
	return hasOne(r.Verbs, verb) && hasOne(r.APIGroups, n.Group) &&
		(hasOne(r.Resources, n.Resource) || hasSub && slices.Contains(r.Resources, "*/"+sub)) &&
		(len(r.ResourceNames) == 0 || n.Name != "" && slices.Contains(r.ResourceNames, n.Name))
}
