package versions

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	interval = time.Minute
	jitter   = 0.1 // at most this fraction is added to the interval
	timeout  = 10 * time.Second
)

// Watch polls the API server's version until the context is cancelled. It calls changed for the first version and whenever the version has
// changed.
func Watch(ctx context.Context, mgr manager.Manager, log logr.Logger, changed func(ctx context.Context, old, current version.Info)) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	Poll(ctx, log, func(ctx context.Context) (current version.Info, err error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		body, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return current, err
		}
		return current, json.Unmarshal(body, &current)
	}, changed)
	return nil
}

// Poll reads the version repeatedly until the context is cancelled, and calls changed whenever it differs from the last one. Of consecutive
// errors, it logs only the first.
func Poll(
	ctx context.Context, log logr.Logger, read func(context.Context) (version.Info, error), changed func(ctx context.Context, old, current version.Info),
) {
	var last version.Info
	failing := false
	for ctx.Err() == nil {
		current, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && current != last:
			changed(ctx, last, current)
			last = current
		case err != nil && !failing:
			log.Info("Failed to read the version of the API server; retrying", "error", err.Error(), "retryAfter", interval.String())
		}
		failing = err != nil
		select {
		case <-time.After(interval + time.Duration(rand.Float64()*jitter*float64(interval))): //nolint:gosec // jitter doesn't need secure random numbers
		case <-ctx.Done():
		}
	}
}
