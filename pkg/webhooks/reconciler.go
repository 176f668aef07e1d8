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

// caProvider provides the CAs that API servers must trust.
type caProvider interface {
	// caBundle returns the CAs as PEM. It returns nil if another program writes the caBundle.
	caBundle() ([]byte, error)
	// rotate advances the rotation of the certificates. published is the caBundle in the configurations, or nil if some configurations
	// aren't written yet. rotate returns the delay until the next call, or zero if no call needs to be scheduled.
	rotate(ctx context.Context, published []byte) (time.Duration, error)
}

// configurationReconciler keeps webhook configurations and certificates in their desired state. It runs in the leader, so that replicas of
// two versions don't overwrite each other's entries. Without leader election, it runs in all replicas.
type configurationReconciler struct {
	mgr           manager.Manager
	options       Options
	hooks         []namedHook
	caProvider    caProvider
	writer        *configurationWriter
	isServerReady func() bool   // reports whether the operator's webhook server answers
	triggered     chan struct{} // requests another reconcile; the capacity is 1
}

const (
	serverPollInterval = 100 * time.Millisecond // interval of checks until the operator's webhook server answers
	kindPollInterval   = 2 * time.Second        // interval of checks while a kind has no CRD
	minRetryDelay      = time.Second
	maxRetryDelay      = time.Minute
	removalTimeout     = 15 * time.Second // timeout for removing entries at shutdown
	propagationDelay   = time.Second      // time until all API servers notice the removal and stop calling
)

// Start runs until the context is cancelled. It returns an error only if permissions are missing at startup, or if the entries can't be
// removed at shutdown.
func (r *configurationReconciler) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, r.mgr.GetLogger().WithName("webhooks"))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.run(ctx) })
	for _, kind := range []hookKind{validating, mutating} {
		obj := newConfiguration(kind, r.options, nil)
		group.Go(func() error { return watchObject(ctx, r.mgr, obj, func(client.Object) { r.trigger() }) })
	}
	err := group.Wait()
	if r.options.Exit == RemoveOnExit {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), removalTimeout)
		defer cancel()
		removalErr := r.removeEntries(last)
		if apierrors.IsForbidden(removalErr) {
			removalErr = permissionError(removalErr)
		}
		if err = errors.Join(err, removalErr); err == nil {
			<-time.After(propagationDelay) // the manager stops the webhook server after this function returns
		}
	}
	return err
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*configurationReconciler) NeedLeaderElection() bool { return true }

// trigger requests another reconcile.
func (r *configurationReconciler) trigger() {
	select {
	case r.triggered <- struct{}{}:
	default: // a reconcile is already requested
	}
}

func (r *configurationReconciler) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	retry, done := minRetryDelay, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-r.triggered:
		}
		if !r.isServerReady() {
			timer.Reset(serverPollInterval) // API servers must not call a server that doesn't answer yet
			continue
		}
		next, err := r.reconcile(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsForbidden(err) && !done:
			return permissionError(err)
		case err != nil:
			log.FromContext(ctx).Error(rbac.Explain(err), "Failed to reconcile webhook configurations or certificates",
				"retryAfter", retry.String())
			next, retry = retry, min(2*retry, maxRetryDelay)
		default:
			retry, done = minRetryDelay, true
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// reconcile writes configurations and certificates that differ from the desired state. It returns the delay until the next reconcile, or
// zero to wait for a trigger.
func (r *configurationReconciler) reconcile(ctx context.Context) (time.Duration, error) {
	bundle, err := r.caProvider.caBundle()
	if err != nil {
		return 0, err
	}
	if r.options.Configurations == Managed {
		bundle = firstNonEmpty(r.options.ClientConfig.CABundle, bundle)
	}
	entries, unknown, err := r.desiredEntries(bundle)
	if err != nil {
		return 0, err
	}
	var failures []error
	complete, pause := true, time.Duration(0)
	for _, kind := range []hookKind{validating, mutating} {
		written, again, err := r.writer.ensure(ctx, kind, entries[kind])
		failures = append(failures, err)
		complete = complete && written
		pause = shortestDelay(pause, again)
	}
	if err := errors.Join(failures...); err != nil {
		return 0, err
	}
	var confirmed []byte
	if complete {
		confirmed = bundle
	}
	next, err := r.caProvider.rotate(ctx, confirmed)
	if unknown {
		next = shortestDelay(next, kindPollInterval)
	}
	return shortestDelay(next, pause), err
}

// desiredEntries returns the entries of all hooks with a [Plural] or a kind that the API server serves. unknown reports whether hooks were
// left out because the API server doesn't serve their kinds.
func (r *configurationReconciler) desiredEntries(bundle []byte) (out map[hookKind][]entry, unknown bool, err error) {
	out = map[hookKind][]entry{}
	for _, n := range r.hooks {
		plural := n.settings.plural
		if plural == "" {
			mapping, err := r.mgr.GetRESTMapper().RESTMapping(n.gvk.GroupKind(), n.gvk.Version)
			if meta.IsNoMatchError(err) {
				unknown = true
				continue
			} else if err != nil {
				return nil, false, fmt.Errorf("%s: %w", n.describe(), err)
			}
			plural = mapping.Resource.Resource
		}
		out[n.kind] = append(out[n.kind], newEntry(r.options, n, plural, bundle))
	}
	return out, unknown, nil
}

// removeEntries removes the entries of all hooks that aren't persistent.
func (r *configurationReconciler) removeEntries(ctx context.Context) error {
	kept := r.hooks[:0:0]
	for _, n := range r.hooks {
		if n.settings.persistent {
			kept = append(kept, n)
		}
	}
	entries := map[hookKind][]entry{}
	if len(kept) > 0 { // without persistent hooks, no CA bundle is needed, and it may be unavailable
		bundle, err := r.caProvider.caBundle()
		if err != nil {
			return err
		}
		last := *r
		last.hooks = kept
		if entries, _, err = last.desiredEntries(firstNonEmpty(r.options.ClientConfig.CABundle, bundle)); err != nil {
			return err
		}
	}
	var failures []error
	for _, kind := range []hookKind{validating, mutating} {
		r.writer.forget(kind)
		_, _, err := r.writer.ensure(ctx, kind, entries[kind])
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

func permissionError(err error) error {
	return fmt.Errorf("webhooks: the operator lacks permissions for its webhooks: grant the permissions in docs/admission.md: %w", rbac.Explain(err))
}

func shortestDelay(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func firstNonEmpty(a, b []byte) []byte {
	if len(a) > 0 {
		return a
	}
	return b
}
