package kopf

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/rights"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
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
		o.rights.mode = mode
	})
}

// rightsPart checks the permissions of the operator for its present kinds and namespaces.
type rightsPart struct {
	mode RightsCheck

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]kinds.Kind
	checker *rights.Checker // nil if the permissions are not checked
}

// start reviews the permissions of the operator. It returns an error if the operator must not start without the missing ones.
func (p *rightsPart) start(ctx context.Context, o *Operator, fixed []kinds.Kind) (*rights.Checker, error) {
	if p.mode == SkipRightsCheck || !testhook.ChecksRights(ctx) {
		return nil, nil
	}
	p.set(nil, map[schema.GroupVersionKind]kinds.Kind{})
	for _, kind := range fixed {
		p.kinds[kind.GVK] = kind
	}
	needs, err := o.presentRights(p.checked(), o.kinds.Namespaces.Exact())
	if err != nil {
		return nil, err
	}
	checker, err := rights.Start(ctx, o.mgr, p.mode.isFatal, needs, func() ([]rbac.Need, error) {
		return o.presentRights(p.checked(), o.kinds.Namespaces.Names())
	})
	if err != nil {
		return nil, err
	}
	p.set(checker, p.kinds)
	return checker, nil
}

func (p *rightsPart) set(checker *rights.Checker, checked map[schema.GroupVersionKind]kinds.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checker, p.kinds = checker, checked
}

// checked returns the kinds whose permissions are checked.
func (p *rightsPart) checked() map[schema.GroupVersionKind]kinds.Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.kinds)
}

// current returns the running checker; nil if there is none.
func (p *rightsPart) current() *rights.Checker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checker
}

func (p *rightsPart) notReady() []error { return p.current().NotReady() }

// add adds a kind of WhenServed or ForKinds to the check.
func (p *rightsPart) add(kind kinds.Kind) {
	p.mu.Lock()
	if p.kinds != nil {
		p.kinds[kind.GVK] = kind
	}
	p.mu.Unlock()
	p.current().Recheck()
}

// remove removes a kind that is no longer served from the check.
func (p *rightsPart) remove(gvk schema.GroupVersionKind) {
	p.mu.Lock()
	delete(p.kinds, gvk)
	p.mu.Unlock()
	p.current().Recheck()
}

// presentRights returns the permissions of the operator and of some kinds. The argument namespaces is used only if the operator has WithNamespaces.
func (o *Operator) presentRights(checked map[schema.GroupVersionKind]kinds.Kind, namespaces []string) ([]rbac.Need, error) {
	r := neededRights{operator: o, scheme: o.mgr.GetScheme(), namespaces: func(gvk schema.GroupVersionKind) []string {
		if o.kinds.Namespaces != nil {
			return namespaces
		}
		return o.kinds.CachedNamespaces(gvk, checked[gvk].Client != nil)
	}, lookUp: func(gvk schema.GroupVersionKind) (schema.GroupResource, bool) {
		mapping, err := o.mgr.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return lookUpIn(nil, gvk)
		}
		return mapping.Resource.GroupResource(), mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}}
	needs := slices.DeleteFunc(operator.Rights(o.parts(nil), podNamespace()), func(n rbac.Need) bool { return !isServedPeering(o.mgr, n) })
	if o.kinds.Namespaces != nil && len(namespaces) == 0 {
		return needs, nil // the namespaces are not known yet
	}
	for _, one := range checked {
		needs = append(needs, r.ofKind(&one)...)
	}
	more, err := r.ofHandlers()
	return append(needs, more...), err
}

// isServedPeering returns false for peering objects that the API server does not serve. Without them, the operator has no peers.
func isServedPeering(mgr manager.Manager, n rbac.Need) bool {
	kind, isPeering := peers.KindOf(n)
	if !isPeering {
		return true
	}
	_, err := mgr.GetRESTMapper().RESTMapping(kind, "v1")
	return err == nil
}

// podNamespace returns the namespace of the pod in which the operator runs, or an empty string outside of a pod.
func podNamespace() string {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (m RightsCheck) isFatal(level rbac.Level) bool {
	return m == RequireWatchRights && level == rbac.Required || m == RequireAllRights && level > rbac.Optional
}
