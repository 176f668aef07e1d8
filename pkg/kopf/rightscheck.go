package kopf

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	checks "github.com/kopf-runtime/kopf-runtime/internal/parts/rights"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// rightsPart checks the operator's permissions for its current kinds and namespaces.
type rightsPart struct {
	mode rights.Check
	// present returns the permissions that the operator needs for some kinds.
	present func(checked map[schema.GroupVersionKind]kinds.Kind, namespaces []string) ([]rbac.Need, error)

	mu      sync.Mutex
	kinds   map[schema.GroupVersionKind]kinds.Kind
	checker *checks.Checker // nil if the permissions aren't checked
}

// start checks the operator's permissions. It returns an error if the operator must not start without the missing ones.
func (p *rightsPart) start(ctx context.Context, rt *kinds.Runtime, fixed []kinds.Kind) (*checks.Checker, error) {
	if p.mode == rights.Skip || !testhook.ChecksRights(ctx) {
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
	checker, err := checks.Start(ctx, rt.Manager, p.isFatal, needs, func() ([]rbac.Need, error) {
		return p.present(p.checked(), rt.Namespaces.Names())
	})
	if err != nil {
		return nil, err
	}
	p.set(checker, p.kinds)
	return checker, nil
}

func (p *rightsPart) set(checker *checks.Checker, checked map[schema.GroupVersionKind]kinds.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checker, p.kinds = checker, checked
}

func (p *rightsPart) checked() map[schema.GroupVersionKind]kinds.Kind {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.kinds)
}

func (p *rightsPart) current() *checks.Checker {
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

// isFatal reports whether the operator must not start without a permission.
func (p *rightsPart) isFatal(level rbac.Level) bool {
	return p.mode == rights.RequireWatch && level == rbac.Required || p.mode == rights.RequireAll && level > rbac.Optional
}
