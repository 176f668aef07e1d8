package kopf

import (
	partrollout "github.com/kopf-runtime/kopf-runtime/internal/parts/rollout"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// WithRollout takes newer revisions of handlers (see [Revision]) to the existing objects in portions: first some canaries, then a few
// objects at a time. It halts if too many of them fail. Users' changes never wait for a rollout.
//
//	kopf.WithRollout(rollout.Options{Canaries: 0.02, Soak: 10 * time.Minute, MaxParallel: 5})
//
// The operator needs permissions for a ConfigMap, which [WriteRights] prints. See package [rollout] for more. Default: all objects are
// handled at once. Equivalent in kopf: none.
func WithRollout(options rollout.Options) Option {
	return optionFunc(func(o *Operator) {
		part := partrollout.New(options, o.mgr, func() string { return o.kinds.Ring.Name() }, o.hasDynamicKinds)
		o.kinds.Settings.Rollout, o.kinds.Settings.OptOut = part, options.OptOut
		o.added = append(o.added, part.Of())
	})
}
