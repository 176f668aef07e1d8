package rbac

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// noNamespace is a namespace that does not exist, so a user has only cluster-wide rules there.
const noNamespace = "kopf-runtime-no-such-namespace"

// Review returns the permissions that the client's user doesn't have, each with its missing verbs. It requests the user's rules once for
// the cluster, and once for each namespace where those rules are not enough. Authorizers other than RBAC may grant a permission, so for
// verbs that no rule contains, it then requests an access review.
func Review(ctx context.Context, c authorizationclient.AuthorizationV1Interface, needs []Need) (missing []Need, err error) {
	rules := map[string][]rbacv1.PolicyRule{}
	if rules[""], err = RulesOf(ctx, c, ""); err != nil {
		return nil, err
	}
	for _, n := range MergeLevels(needs) {
		if len(Missing(rules[""], n)) == 0 {
			continue
		}
		known, isKnown := rules[n.Namespace]
		if !isKnown {
			if known, err = RulesOf(ctx, c, n.Namespace); err != nil {
				return nil, err
			}
			rules[n.Namespace] = known
		}
		var verbs []string
		for _, verb := range Missing(known, n) {
			allowed, err := isAllowed(ctx, c, n, verb)
			if err != nil {
				return nil, err
			}
			if !allowed {
				verbs = append(verbs, verb)
			}
		}
		if n.Verbs = verbs; len(verbs) > 0 {
			missing = append(missing, n)
		}
	}
	return missing, nil
}

// RulesOf returns the rules that the client's user has in a namespace, including cluster-wide ones. Without a namespace, it returns only
// the latter.
func RulesOf(ctx context.Context, c authorizationclient.AuthorizationV1Interface, namespace string) (rules []rbacv1.PolicyRule, err error) {
	if namespace == "" {
		namespace = noNamespace
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if review, err = c.SelfSubjectRulesReviews().Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("reviewing the permissions of the user: %w", err)
	}
	for _, r := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames, Verbs: r.Verbs})
	}
	return rules, nil
}

func isAllowed(ctx context.Context, c authorizationclient.AuthorizationV1Interface, n Need, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(n.Resource, "/")
	review, err := c.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: n.Namespace, Verb: verb, Group: n.Group, Resource: resource, Subresource: subresource, Name: n.Name,
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the permission to %s %s: %w", verb, n.Resource, err)
	}
	return review.Status.Allowed, nil
}
