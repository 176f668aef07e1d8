package kopf

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

// RightsCheck defines how the operator handles missing permissions. See [WithRightsCheck].
type RightsCheck int

// The modes of [WithRightsCheck].
const (
	// RequireWatchRights makes the start fail if the permission to watch a kind or a related kind is missing. With [WithSharding], it also requires the
	// permissions for the Lease of the shard and for the labels of the objects. It logs other missing permissions. This is the default.
	RequireWatchRights RightsCheck = iota
	// RequireAllRights makes the start fail if any permission that is not optional is missing. It logs missing optional permissions.
	RequireAllRights
	// WarnAboutRights only logs missing permissions.
	WarnAboutRights
	// SkipRightsCheck disables the check.
	SkipRightsCheck
)

// WithRightsCheck sets how the operator handles missing permissions when it starts. The operator asks the API server for its own permissions, and compares
// them with the permissions that [WriteRights] writes. The error of the start contains all missing rules. For kinds of [WhenServed] and [ForKinds], and for
// namespaces that patterns or a function select, the operator only logs missing permissions, and handles the other kinds and namespaces. If all patterns of
// [WithNamespaces] are names, missing permissions make the start fail with [RequireAllRights], but not with [RequireWatchRights].
//
// The operator repeats the check at the interval of [WithWatchCheck]. Each check sends one small request for the cluster, one for each namespace for which
// that request is not sufficient, and one for each missing permission. The operator logs permissions that are lost or granted later. The metric
// kopf_missing_permissions shows the missing permissions. [Operator.Readyz] fails while the operator lacks a permission that it had in an earlier check.
// If the check itself fails, the operator starts without it. Default: [RequireWatchRights].
func WithRightsCheck(mode RightsCheck) Option {
	return optionFunc(func(o *Operator) {
		if mode < RequireWatchRights || mode > SkipRightsCheck {
			o.addError(fmt.Errorf("WithRightsCheck(%d): use RequireWatchRights, RequireAllRights, WarnAboutRights or SkipRightsCheck", mode))
		}
		o.rightsCheck = mode
	})
}

// A rightsChecker compares the permissions of the operator with the permissions that it needs.
type rightsChecker struct {
	operator *Operator
	client   authorizationclient.AuthorizationV1Interface
	log      logr.Logger
	changed  chan struct{} // kinds or namespaces have changed

	mu    sync.Mutex
	kinds map[schema.GroupVersionKind]checkedKind // by kind
	// Each element of these three slices has exactly one verb.
	reviewed []rbac.Need // the permissions of the last review
	missing  []rbac.Need // the permissions that were missing in the last review
	initial  []rbac.Need // the elements of missing that were also missing in their first review
}

// A checkedKind is a kind whose permissions are checked.
type checkedKind struct {
	kind      engine.Kind
	declared  resource
	atRunTime bool // the kind is from WhenServed or ForKinds, and has a cache of its own
}

// newRightsChecker reviews the permissions of the operator. It returns an error if the operator must not start without the missing permissions. It
// returns nil if the permissions are not checked.
func (o *Operator) newRightsChecker(ctx context.Context, kinds []engine.Kind, resources []resource, log logr.Logger) (*rightsChecker, error) {
	if o.rightsCheck == SkipRightsCheck || !testhook.ChecksRights(ctx) {
		return nil, nil
	}
	client, err := authorizationclient.NewForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("checking the permissions: %w", err)
	}
	c := &rightsChecker{operator: o, client: client, log: log, changed: make(chan struct{}, 1), kinds: map[schema.GroupVersionKind]checkedKind{}}
	for i, kind := range kinds {
		c.kinds[kind.GVK] = checkedKind{kind, resources[i], false}
	}
	needs, err := c.needs(o.namespaces.exact())
	if err != nil {
		return nil, err
	}
	reviewCtx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	missing, err := rbac.Review(reviewCtx, client, needs)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // the API server does not support reviews of the own permissions
	case err != nil:
		log.V(1).Info("Failed to check the permissions of the operator", "error", err.Error())
		return c, nil // run repeats the check at the interval
	}
	if slices.ContainsFunc(missing, func(n rbac.Need) bool { return o.rightsCheck.isFatal(n.Level) }) {
		return nil, fmt.Errorf("the operator cannot start: permissions are missing:\n%s\nadd the rules below to its roles, or choose another mode with WithRightsCheck, such as WarnAboutRights\n%s",
			lines(missing), rbac.Advice(missing))
	}
	c.update(needs, missing)
	return c, nil
}

// needs returns the permissions of the operator and of its kinds. The argument namespaces is used only if the operator has WithNamespaces.
func (c *rightsChecker) needs(namespaces []string) ([]rbac.Need, error) {
	o := c.operator
	c.mu.Lock()
	kinds := maps.Clone(c.kinds)
	c.mu.Unlock()
	r := rights{operator: o, scheme: o.mgr.GetScheme(), namespaces: func(gvk schema.GroupVersionKind) []string {
		if o.namespaces != nil {
			return namespaces
		}
		return o.cachedNamespaces(gvk, kinds[gvk].atRunTime)
	}, lookUp: func(gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
		mapping, err := o.mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return lookUpIn(nil, gvk)
		}
		return mapping.Resource.GroupResource(), mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}}
	needs := slices.DeleteFunc(r.ofOperator(podNamespace()), func(n rbac.Need) bool { return !c.isServedPeering(n) })
	if o.namespaces != nil && len(namespaces) == 0 {
		return needs, nil // the namespaces are not known yet
	}
	for _, one := range kinds {
		needs = append(needs, r.ofKind(&one.kind, one.declared)...)
	}
	more, err := r.ofHandlers()
	return append(needs, more...), err
}

// isServedPeering returns false for peering objects that the API server does not serve. Without them, the operator has no peers.
func (c *rightsChecker) isServedPeering(n rbac.Need) bool {
	if !slices.Contains(peeringGroups, n.Group) {
		return true
	}
	kind := map[bool]string{true: "ClusterKopfPeering", false: "KopfPeering"}[strings.HasPrefix(n.Resource, "cluster")]
	_, err := c.operator.mgr.GetRESTMapper().RESTMapping(schema.GroupKind{Group: n.Group, Kind: kind}, "v1")
	return err == nil
}

// cachedNamespaces returns the namespaces to which the cache of a kind is restricted, or nil if the cache is cluster-wide. For the zero GroupVersionKind, it
// returns the default namespaces of the cache.
func (o *Operator) cachedNamespaces(gvk schema.GroupVersionKind, atRunTime bool) (namespaces []string) {
	if !atRunTime && !o.hasOwnCache() {
		return watchcheck.CacheNamespaces(o.mgr.GetCache(), gvk)
	}
	configs := o.kindCaches.DefaultNamespaces
	for obj, byObject := range o.kindCaches.ByObject {
		if other, err := apiutil.GVKForObject(obj, o.mgr.GetScheme()); err == nil && other == gvk && byObject.Namespaces != nil {
			configs = byObject.Namespaces
		}
	}
	if _, all := configs[cache.AllNamespaces]; all {
		return nil
	}
	return slices.Sorted(maps.Keys(configs))
}

// reviewTimeout limits the check of the permissions at the start, and the read of the ControllerRing.
const reviewTimeout = 10 * time.Second

// podNamespace returns the namespace of the pod in which the operator runs, or an empty string outside of a pod.
func podNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// rightsChanged applies change to the checked kinds, and requests a review from run.
func (o *Operator) rightsChanged(change func(kinds map[schema.GroupVersionKind]checkedKind)) {
	o.mu.Lock()
	c := o.rights
	o.mu.Unlock()
	if c == nil {
		return
	}
	c.mu.Lock()
	change(c.kinds)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default: // run has not received the previous change yet
	}
}

// checkKindRights adds a kind of WhenServed or ForKinds to the check.
func (o *Operator) checkKindRights(kind engine.Kind, declared resource) {
	o.rightsChanged(func(kinds map[schema.GroupVersionKind]checkedKind) {
		kinds[kind.GVK] = checkedKind{kind, declared, true}
	})
}

// forgetKindRights removes a kind that is no longer served from the check.
func (o *Operator) forgetKindRights(gvk schema.GroupVersionKind) {
	o.rightsChanged(func(kinds map[schema.GroupVersionKind]checkedKind) { delete(kinds, gvk) })
}

func (m RightsCheck) isFatal(level rbac.Level) bool {
	return m == RequireWatchRights && level == rbac.Required || m == RequireAllRights && level > rbac.Optional
}

// singleVerbs splits permissions into permissions with one verb each.
func singleVerbs(needs []rbac.Need) (single []rbac.Need) {
	for _, n := range needs {
		for _, verb := range n.Verbs {
			n.Verbs = []string{verb}
			single = append(single, n)
		}
	}
	return single
}

// setOf returns the set of the strings of permissions.
func setOf(needs []rbac.Need) map[string]bool {
	set := make(map[string]bool, len(needs))
	for _, n := range needs {
		set[n.String()] = true
	}
	return set
}

func lines(needs []rbac.Need) (text string) {
	for _, n := range needs {
		reason := n.Reason
		if n.Level == rbac.Optional && !strings.HasPrefix(reason, "optional") {
			reason = "optional: " + reason
		}
		text += "  " + n.String() + " (" + reason + ")\n"
	}
	return text[:max(0, len(text)-1)]
}

// run repeats the review until the context is cancelled: at the interval, if the interval is not 0, and when the served kinds or the namespaces change.
func (c *rightsChecker) run(ctx context.Context, interval time.Duration) {
	var tick <-chan time.Time
	if interval > 0 {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick:
		case <-c.changed:
		case <-ctx.Done():
			return
		}
		needs, err := c.needs(c.operator.namespaces.names())
		var missing []rbac.Need
		if err == nil {
			missing, err = rbac.Review(ctx, c.client, needs)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.log.V(1).Info("Failed to check the permissions of the operator", "error", err.Error())
		default:
			c.update(needs, missing)
		}
	}
}

// update sets the result of a review, and logs the differences from the last review.
func (c *rightsChecker) update(needs, missing []rbac.Need) {
	needs, missing = singleVerbs(needs), singleVerbs(missing)
	c.mu.Lock()
	defer c.mu.Unlock()
	isNeeded, isMissing, wasReviewed, wasMissing, wasInitial := setOf(needs), setOf(missing), setOf(c.reviewed), setOf(c.missing), setOf(c.initial)
	labels := func(n rbac.Need) []string { return []string{n.Group, n.Resource, n.Verbs[0], n.Namespace} }
	for _, n := range c.missing {
		if isMissing[n.String()] {
			continue
		}
		metrics.AddMissingPermission(-1, labels(n)...)
		if isNeeded[n.String()] {
			c.log.Info("The operator has received a permission", "permission", n.String())
		}
	}
	var initial []rbac.Need
	for _, n := range missing {
		if !wasMissing[n.String()] {
			metrics.AddMissingPermission(1, labels(n)...)
		}
		if !wasReviewed[n.String()] || wasInitial[n.String()] {
			initial = append(initial, n)
		}
		switch {
		case wasMissing[n.String()]:
		case n.Level == rbac.Optional:
			c.log.Info("An optional permission is missing", "permission", n.String(), "reason", n.Reason)
		default:
			c.log.Info("The operator does not have a permission that it needs", "permission", n.String(), "reason", n.Reason, "rule", rbac.Advice([]rbac.Need{n}))
		}
	}
	c.reviewed, c.missing, c.initial = needs, missing, initial
}

// notReady returns an error for each permission that the operator had in an earlier review and now lacks.
func (c *rightsChecker) notReady() (errs []error) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wasInitial := setOf(c.initial)
	for _, n := range c.missing {
		if n.Level > rbac.Optional && !wasInitial[n.String()] {
			errs = append(errs, fmt.Errorf("the permission is missing: %s", n))
		}
	}
	return errs
}
