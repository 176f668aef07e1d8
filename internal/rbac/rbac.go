package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rule is an RBAC rule that grants verbs on resources.
type Rule struct {
	Group     string // API group; empty for the core group
	Resources []string
	Verbs     []string
	// Scope is where the rule must apply, such as "the whole cluster"; empty if unknown.
	Scope string
}

// String returns instructions for users: which rule to add to a role, and the kubebuilder marker that generates it.
func (r Rule) String() string {
	group, where := cmp.Or(r.Group, `""`), ""
	if r.Scope != "" {
		where = " for " + r.Scope
	}
	return fmt.Sprintf("add an RBAC rule with apiGroups: [%s], resources: [%s], verbs: [%s]%s; "+
		"kubebuilder marker: // +kubebuilder:rbac:groups=%s,resources=%s,verbs=%s",
		group, strings.Join(r.Resources, ", "), strings.Join(r.Verbs, ", "), where,
		group, strings.Join(r.Resources, ";"), strings.Join(r.Verbs, ";"))
}

// These patterns match the API server's error messages, even inside wrapping errors. Denials from admission webhooks are worded
// differently.
var (
	lackingResource = regexp.MustCompile(`cannot (\w+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)"| at the (cluster) scope)?`)
	lackingOwner    = regexp.MustCompile(`cannot set blockOwnerDeletion`)
)

// MissingRules returns the rules that are missing according to an error from the API server. It returns nil for other errors.
func MissingRules(err error) (rules []Rule) {
	if err == nil {
		return nil
	}
	for _, found := range lackingResource.FindAllStringSubmatch(err.Error(), -1) {
		rule := Rule{Group: found[3], Resources: []string{found[2]}, Verbs: []string{found[1]}}
		if found[1] == "list" || found[1] == "watch" {
			rule.Verbs = []string{"list", "watch"} // informers need both
		}
		switch {
		case found[4] != "":
			rule.Scope = fmt.Sprintf("the namespace %q (a Role, or a ClusterRole)", found[4])
		case found[5] != "":
			rule.Scope = "the whole cluster (a ClusterRole)"
		}
		if !slices.ContainsFunc(rules, func(other Rule) bool { return other.String() == rule.String() }) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Explain appends the missing rules to an error from the API server. Other errors, and those that already contain a rule, are returned
// unchanged.
func Explain(err error) error {
	if _, ok := errors.AsType[*missingError](err); ok || err == nil {
		return err
	}
	rules := MissingRules(err)
	if len(rules) > 0 {
		return WithMissingRules(err, rules...)
	}
	if lackingOwner.MatchString(err.Error()) {
		return &missingError{err, "grant the verb update on the finalizers subresource of the owner's kind, such as resources: [databases/finalizers]; " +
			"kubebuilder marker: // +kubebuilder:rbac:groups=example.com,resources=databases/finalizers,verbs=update"}
	}
	return err
}

// WithMissingRules appends rules to an error.
func WithMissingRules(err error, rules ...Rule) error {
	texts := make([]string, len(rules))
	for i, rule := range rules {
		texts[i] = rule.String()
	}
	return &missingError{err, strings.Join(texts, "; ")}
}

// missingError is an error together with the missing rule.
type missingError struct {
	err  error
	rule string
}

func (e *missingError) Error() string { return e.err.Error() + ": " + e.rule }
func (e *missingError) Unwrap() error { return e.err }
