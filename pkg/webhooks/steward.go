package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// An authority is where the caBundle comes from.
type authority interface {
	// bundle is what the API server has to trust; nil if that is left to others.
	bundle() ([]byte, error)
	// step is told of the bundle that stands in the configurations, and says when to come back; zero: never.
	step(ctx context.Context, confirmed []byte) (time.Duration, error)
}

// A steward keeps the configurations and the certificates as they should be. It runs in the leader, so that
// replicas of two versions do not undo each other's entries; without leader election, in all.
type steward struct {
	mgr       manager.Manager
	options   Options
	hooks     []named
	authority authority
	keeper    *configurations
	serving   func() bool   // the own server answers
	wake      chan struct{} // capacity 1: something may have changed
}

const (
	servingInterval = 100 * time.Millisecond // until the own server answers
	kindInterval    = 2 * time.Second        // while a kind has no CRD
	firstRetry      = time.Second
	lastRetry       = time.Minute
	farewell        = 15 * time.Second // for the removal at the end
	rumour          = time.Second      // until all API servers have heard of the removal, and call no more
)

// Start runs until the context ends. It fails only at the beginning, if the operator lacks permissions.
func (s *steward) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, s.mgr.GetLogger().WithName("webhooks"))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.run(ctx) })
	for _, kind := range []hookKind{validating, mutating} {
		obj := configurationOf(kind, s.options, nil)
		group.Go(func() error { return watch(ctx, s.mgr, obj, func(client.Object) { s.nudge() }) })
	}
	err := group.Wait()
	if s.options.Exit == RemoveOnExit {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		left := s.retire(last)
		if apierrors.IsForbidden(left) {
			left = lacking(left)
		}
		if err = errors.Join(err, left); err == nil {
			<-time.After(rumour) // the server ends later
		}
	}
	return err
}

// NeedLeaderElection makes it the work of the leader.
func (*steward) NeedLeaderElection() bool { return true }

// nudge has everything looked at again.
func (s *steward) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will be looked at anyway
	}
}

func (s *steward) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry, done := firstRetry, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-s.wake:
		}
		if !s.serving() {
			timer.Reset(servingInterval) // who is not there yet shall not be called
			continue
		}
		next, err := s.tend(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsForbidden(err) && !done:
			return lacking(err)
		case err != nil:
			log.FromContext(ctx).Error(rbac.Explain(err), "The webhook configurations or certificates cannot be kept; it will be tried again",
				"retryAfter", retry.String())
			next, retry = retry, min(2*retry, lastRetry)
		default:
			retry, done = firstRetry, true
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// tend looks at everything once, and says when to look again; zero: when something changes.
func (s *steward) tend(ctx context.Context) (time.Duration, error) {
	bundle, err := s.authority.bundle()
	if err != nil {
		return 0, err
	}
	if s.options.Configurations == Managed {
		bundle = firstOf(s.options.ClientConfig.CABundle, bundle)
	}
	entries, unknown, err := s.entries(bundle)
	if err != nil {
		return 0, err
	}
	var failures []error
	complete, pause := true, time.Duration(0)
	for _, kind := range []hookKind{validating, mutating} {
		written, again, err := s.keeper.put(ctx, kind, entries[kind])
		failures = append(failures, err)
		complete = complete && written
		pause = soonest(pause, again)
	}
	if err := errors.Join(failures...); err != nil {
		return 0, err
	}
	var confirmed []byte
	if complete {
		confirmed = bundle
	}
	next, err := s.authority.step(ctx, confirmed)
	if unknown {
		next = soonest(next, kindInterval)
	}
	return soonest(next, pause), err
}

// entries are those of the hooks whose kinds there are.
func (s *steward) entries(bundle []byte) (out map[hookKind][]entry, unknown bool, err error) {
	out = map[hookKind][]entry{}
	for _, n := range s.hooks {
		plural := n.settings.plural
		if plural == "" {
			mapping, err := s.mgr.GetRESTMapper().RESTMapping(n.gvk.GroupKind(), n.gvk.Version)
			if meta.IsNoMatchError(err) {
				unknown = true
				continue
			} else if err != nil {
				return nil, false, fmt.Errorf("%s: %w", n.where(), err)
			}
			plural = mapping.Resource.Resource
		}
		out[n.kind] = append(out[n.kind], entryOf(s.options, n, plural, bundle))
	}
	return out, unknown, nil
}

// retire leaves what is to outlive the operator.
func (s *steward) retire(ctx context.Context) error {
	kept := s.hooks[:0:0]
	for _, n := range s.hooks {
		if n.settings.persistent {
			kept = append(kept, n)
		}
	}
	entries := map[hookKind][]entry{}
	if len(kept) > 0 { // else it takes no bundle, which might not be there
		bundle, err := s.authority.bundle()
		if err != nil {
			return err
		}
		last := *s
		last.hooks = kept
		if entries, _, err = last.entries(firstOf(s.options.ClientConfig.CABundle, bundle)); err != nil {
			return err
		}
	}
	var failures []error
	for _, kind := range []hookKind{validating, mutating} {
		s.keeper.forget(kind)
		_, _, err := s.keeper.put(ctx, kind, entries[kind])
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func lacking(err error) error {
	return fmt.Errorf("webhooks: the operator lacks permissions; docs/admission.md has those it needs: %w", rbac.Explain(err))
}

func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func firstOf(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}
