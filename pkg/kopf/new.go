package kopf

import (
	"errors"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// New returns an operator with the given resources and options. It registers the admission handlers with the manager's webhook server, but
// doesn't start anything. Invalid options are reported by [Operator.CheckDeclaration] and [Operator.Start].
//
//	err := mgr.Add(kopf.New(mgr, kopf.For(&v1.Database{}).OnCreate("provision", provision)))
func New(mgr manager.Manager, opts ...Option) *Operator {
	o := &Operator{mgr: mgr, kinds: kinds.NewRuntime(mgr), declared: declared{stuckAfter: defaultStuckAfter, lease: operator.DefaultLease}}
	o.kinds.WatchCheck, o.kinds.Settings = defaultWatchCheck, engine.Settings{
		Store:      progress.Smart(),
		Baseline:   progress.AnnotationBaseline(""),
		Finalizer:  DefaultFinalizer,
		Lifecycle:  progress.AllAtOnce,
		Checkpoint: defaultCheckpoint,
	}
	o.resolved = sync.OnceValues(o.engineKinds)
	for _, opt := range opts {
		if opt == nil {
			o.addError(errors.New("an option is nil: remove it"))
			continue
		}
		opt.applyTo(o)
	}
	o.kinds.HasDynamicKinds, o.kinds.Reporters, o.kinds.PauseScopes = o.hasDynamicKinds(), o.reporters(), o.peers.Scopes
	o.kinds.SelectsKinds = slices.ContainsFunc(o.resources, func(r resource) bool { return r.options().selector != nil && !r.options().whenServed })
	o.kinds.Comes, o.kinds.Goes, o.rights.present = o.rights.add, o.rights.remove, o.presentRights
	if err := o.setupWebhooks(); err != nil {
		o.addError(err)
	}
	return o
}
