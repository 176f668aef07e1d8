package kopf

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// These constants control how the operator reads the version of the API server.
const (
	versionInterval = time.Minute
	versionJitter   = 0.1 // maximum fraction that is added to the interval
	versionTimeout  = 10 * time.Second
)

// OnVersion adds a function that the operator calls when it starts, and when the version of the API server has changed, for example after an upgrade of the
// cluster. In the first call, old is the zero value. The operator keeps the version only in memory, so it calls the function at each start. While an upgrade
// replaces several API servers, the version can change repeatedly between the old and the new version.
//
// The operator reads the version about once a minute, from the path /version, which needs no permission by default. It calls the functions in the order of
// their registration, concurrently with the handlers of objects, and reads the version again after the functions have finished. Use [OnStartup] for work that
// must end before the operator handles objects. The supported options are the same as for OnStartup. After a permanent failure, the operator logs the error and
// continues.
func OnVersion(id string, fn func(ctx context.Context, old, current version.Info) error, opts ...HandlerOption) Option {
	a := &activity{declaration: declaration{id: id, method: "OnVersion", handlerKind: activityHandler}}
	if fn != nil {
		a.fn = func(ctx context.Context) error {
			change, _ := ctx.Value(versionChangeKey{}).(versionChange) // watchVersion has set it
			return fn(ctx, change.old, change.current)
		}
	}
	return activityOption(a, opts, func(o *Operator) *[]*activity { return &o.functions.versions })
}

// A versionChange contains the arguments for the functions of [OnVersion]. watchVersion passes it to them in their context.
type versionChange struct{ old, current version.Info }

type versionChangeKey struct{}

// watchVersion calls the functions of OnVersion until the context is cancelled.
func (o *Operator) watchVersion(ctx context.Context, log logr.Logger) error {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(o.mgr.GetConfig(), o.mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("reading the version of the API server: %w", err)
	}
	pollVersion(ctx, log, func(ctx context.Context) (current version.Info, err error) {
		ctx, cancel := context.WithTimeout(ctx, versionTimeout)
		defer cancel()
		body, err := client.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err != nil {
			return current, err
		}
		return current, json.Unmarshal(body, &current)
	}, func(ctx context.Context, old, current version.Info) {
		ctx = context.WithValue(ctx, versionChangeKey{}, versionChange{old, current})
		_ = o.runActivities(ctx, "version", o.functions.versions) // each attempt has logged its error
	})
	return nil
}

// pollVersion reads the version repeatedly until the context is cancelled, and calls changed when the version differs from the last version. It logs only
// the first of consecutive errors.
func pollVersion(
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
			log.Info("Failed to read the version of the API server; retrying", "error", err.Error(), "retryAfter", versionInterval.String())
		}
		failing = err != nil
		select {
		case <-time.After(versionInterval + time.Duration(rand.Float64()*versionJitter*float64(versionInterval))): //nolint:gosec // the jitter needs no secret
		case <-ctx.Done():
		}
	}
}
