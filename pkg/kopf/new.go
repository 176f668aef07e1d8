package kopf

import (
	"errors"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// New returns an operator with the given resources and options. It registers the admission handlers with the webhook server of the manager,
// but starts nothing. [Operator.CheckDeclaration] and [Operator.Start] report invalid options.
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
	o.kinds.Comes, o.kinds.Goes, o.rights.present = o.rights.add, o.rights.remove, o.presentRights
	if err := o.setupWebhooks(); err != nil {
		o.addError(err)
	}
	return o
}

// SetupWithManager creates an operator, checks its declaration and adds it to the manager. It also registers the following endpoints:
//
//   - [Operator.Healthz] and [Operator.Readyz] as "kopf-<controllers>", with the controller names of all resources, joined by dashes (see [WithName])
//   - [Operator.ServeProbes] under /kopf/probes of the metrics server, if there are probes
//   - [Operator.ServePeering] under /kopf/peering of the metrics server, if the operator has [WithPeering]
//
// A manager can have only one operator with probes from SetupWithManager, and only one with peering. Use mgr.Add(kopf.New(...)) for other operators. If the
// manager is already running, SetupWithManager logs that it cannot add the health checks, and adds the operator without them.
func SetupWithManager(mgr manager.Manager, opts ...Option) error {
	o := New(mgr, opts...)
	if err := o.CheckDeclaration(); err != nil {
		return err
	}
	if err := mgr.Add(o); err != nil {
		return err
	}
	if !o.functions.probes.IsEmpty() {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/probes", o.ServeProbes()); err != nil {
			return err
		}
	}
	if o.peers != nil {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/peering", o.ServePeering()); err != nil {
			return err
		}
	}
	name := healthCheckName(o.resources, mgr.GetScheme())
	if err := errors.Join(mgr.AddHealthzCheck(name, o.Healthz), mgr.AddReadyzCheck(name, o.Readyz)); err != nil {
		// A running manager accepts runnables, but no health checks.
		mgr.GetLogger().Info("Cannot add health checks to a running manager; the operator runs without them", "error", err.Error())
	}
	return nil
}

// healthCheckName returns the name of the health checks, which contains the controller names of all resources.
func healthCheckName(resources []resource, scheme *runtime.Scheme) string {
	names := []string{"kopf"}
	for _, r := range resources {
		names = append(names, r.controllerName(scheme))
	}
	return strings.Join(names, "-")
}
