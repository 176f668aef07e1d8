package kopf

import (
	"context"

	"k8s.io/apimachinery/pkg/version"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
)

// OnVersion adds a function that the operator calls when it starts, and when the API server's version has changed, for example after a
// cluster upgrade. In the first call, old is the zero value. The version is only kept in memory, so the function is called at each start.
// While an upgrade replaces several API servers, the version can switch back and forth between the old and the new one.
//
// The operator reads the version about once a minute, from the path /version, which needs no permission by default. It calls the functions
// one after the other in the order in which you added them, concurrently with the handlers of objects, and doesn't read the version again
// until they have finished. Use [OnStartup] for work that must be done before the operator handles objects. OnVersion supports the same
// options as OnStartup. After a permanent failure, the operator logs the error and carries on.
func OnVersion(id string, fn func(ctx context.Context, old, current version.Info) error, opts ...HandlerOption) Option {
	a := &activity{declaration: declaration{id: id, method: "OnVersion", handlerKind: activityHandler}}
	if fn != nil {
		a.fn = func(ctx context.Context) error {
			change, _ := ctx.Value(versionChangeKey{}).(versionChange) // set by versionChanged
			return fn(ctx, change.old, change.current)
		}
	}
	return activityOption(a, opts, func(o *Operator) *[]*activity { return &o.functions.versions })
}

// A versionChange holds the arguments for the functions of [OnVersion]. versionChanged passes it to them in their context.
type versionChange struct{ old, current version.Info }

type versionChangeKey struct{}

func (f *functions) versionChanged(ctx context.Context, rt *kinds.Runtime, old, current version.Info) {
	ctx = context.WithValue(ctx, versionChangeKey{}, versionChange{old, current})
	_ = f.run(ctx, rt, "version", f.versions) // the error is already logged
}
