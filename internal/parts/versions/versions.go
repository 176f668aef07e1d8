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

// These constants control how the operator reads the version of the API server.
const (
	interval = time.Minute
	jitter   = 0.1 // maximum fraction that is added to the interval
	timeout  = 10 * time.Second
)

// Watch reads the version of the API server until the context is cancelled. It calls changed with the first version, and when the version has changed.
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

// Poll reads the version repeatedly until the context is cancelled, and calls changed when the version differs from the last version. It logs only
// the first of consecutive errors.
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
		case <-time.After(interval + time.Duration(rand.Float64()*jitter*float64(interval))): //nolint:gosec // the jitter needs no secret
		case <-ctx.Done():
		}
	}
}
