package kopf

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/rights"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
)

// RightsCheck says what the operator does if it lacks permissions. See [WithRightsCheck].
type RightsCheck int

// The modes of [WithRightsCheck].
const (
	// RequireWatchRights makes the start fail if the permission to watch a kind or a related kind is missing. With [WithSharding], it also
	// requires the permissions for the shard's Lease and for the labels of the objects. Other missing permissions are only logged. This is
	// the default.
	RequireWatchRights RightsCheck = iota
	// RequireAllRights makes the start fail if any permission that is not optional is missing. Missing optional permissions are only
	// logged.
	RequireAllRights
	// WarnAboutRights only logs missing permissions.
	WarnAboutRights
	// SkipRightsCheck disables the check.
	SkipRightsCheck
)

// rightsPart checks the permissions of the operator for its present kinds and namespaces.
type rightsPart struct {
	mode RightsCheck
	// present returns the permissions of the operator and of some kinds.
	present func(checked map[schema.GroupVersionKind]kinds.Kind, namespaces []string) ([]rbac.Need, error)

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]kinds.Kind
	checker *rights.Checker // nil if the permissions are not checked
}

// start checks the permissions of the operator. It returns an error if the operator must not start without the missing ones.
func (p *rightsPart) start(ctx context.Context, rt *kinds.Runtime, fixed []kinds.Kind) (*rights.Checker, error) {
	if p.mode == SkipRightsCheck || !testhook.ChecksRights(ctx) {
		return nil, nil
	}
	p.set(nil, map[schema.GroupVersionKind]kinds.Kind{})
	for _, kind := range fixed {
		p.kinds[kind.GVK] = kind
	}
	needs, err := p.present(p.checked(), rt.Namespaces.Exact())
	if err != nil {
		return nil, err
	}
	checker, err := rights.Start(ctx, rt.Manager, p.mode.isFatal, needs, func() ([]rbac.Need, error) {
		return p.present(p.checked(), rt.Namespaces.Names())
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

// current returns the running checker, or nil.
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

func (m RightsCheck) isFatal(level rbac.Level) bool {
	return m == RequireWatchRights && level == rbac.Required || m == RequireAllRights && level > rbac.Optional
}
