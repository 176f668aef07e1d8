package rights

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// reviewTimeout limits the permission check when the operator starts.
const reviewTimeout = 10 * time.Second

// A Checker compares the permissions that the operator has with those it needs. A nil Checker checks nothing.
type Checker struct {
	client  authorizationclient.AuthorizationV1Interface
	needs   func() ([]rbac.Need, error)
	log     logr.Logger
	changed chan struct{} // the needs have changed

	mu sync.Mutex
	// Each need in these slices has exactly one verb.
	reviewed []rbac.Need // checked in the last review
	missing  []rbac.Need // missing in the last review
	initial  []rbac.Need // those in missing that were already missing when first reviewed
}

// Start reviews the permissions that the operator needs when it starts. It fails if one is missing that the operator must not start
// without. The Checker is nil if the API server doesn't support such reviews. later returns the permissions that [Checker.Run] reviews.
func Start(
	ctx context.Context, mgr manager.Manager, isFatal func(rbac.Level) bool, atStart []rbac.Need, later func() ([]rbac.Need, error),
) (*Checker, error) {
	client, err := authorizationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("checking the permissions: %w", err)
	}
	c := &Checker{client: client, needs: later, log: mgr.GetLogger(), changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	missing, err := rbac.Review(ctx, client, atStart)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		c.log.V(1).Info("Failed to check the permissions of the operator", "error", err.Error())
		return c, nil // Run checks again after its interval
	}
	if slices.ContainsFunc(missing, func(n rbac.Need) bool { return isFatal(n.Level) }) {
		return nil, fmt.Errorf("the operator cannot start: permissions are missing:\n%s\nadd the rules below to its roles, or choose another mode with WithRightsCheck, such as rights.Warn\n%s",
			lines(missing), rbac.Advice(missing))
	}
	c.update(atStart, missing)
	return c, nil
}

// Recheck requests a new review because the needs have changed.
func (c *Checker) Recheck() {
	if c == nil {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default: // Run has not received the previous change yet
	}
}

// Close resets the metric of missing permissions.
func (c *Checker) Close() { c.update(nil, nil) }

// Run repeats the review until the context is cancelled, after every Recheck and at the interval unless that is 0.
func (c *Checker) Run(ctx context.Context, interval time.Duration) {
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
		needs, err := c.needs()
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

// update stores a review's result, and logs what has changed since the last one.
func (c *Checker) update(needs, missing []rbac.Need) {
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

// NotReady returns an error for each permission that the operator had in an earlier review but now lacks.
func (c *Checker) NotReady() (errs []error) {
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

// singleVerbs splits permissions so that each has one verb.
func singleVerbs(needs []rbac.Need) (single []rbac.Need) {
	for _, n := range needs {
		for _, verb := range n.Verbs {
			n.Verbs = []string{verb}
			single = append(single, n)
		}
	}
	return single
}

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
