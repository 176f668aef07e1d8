package kopf

import (
	"errors"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// An Operator calls the handlers of its resources. It is a manager.Runnable: add it to a manager.
type Operator struct {
	// The manager must not be embedded: the operator would get methods by which another manager
	// takes it for something else.
	mgr       manager.Manager
	settings  engine.Settings
	resources []resource
	wrappers  []func(reconcile.Reconciler) reconcile.Reconciler
	errs      []error

	startup, cleanup []*activity
	probes           probes
	memos            objectstate.Memos // of the activities
	stuckAfter       time.Duration
	watchCheck       time.Duration // the interval; 0: watches are not checked
	lease            leaseDurations
	peers            *peering.Options
	eventNames       *eventrecorder.Reporter // of those in the form of kopf; nil: they are not
	webhookOptions   *webhooks.Options

	mu       sync.Mutex
	started  bool
	unsynced int // caches, and indexes for kinds, that are not complete yet
	engines  []*engine.Engine
	watches  []*watchcheck.Checker // while they are running
	peering  *peering.Peering      // while it is running
}

var _ interface {
	manager.Runnable
	manager.LeaderElectionRunnable
} = (*Operator)(nil)

// New declares an operator. It never fails and starts nothing, but it registers admission handlers with the manager's
// webhook server: mistakes are told by [Operator.CheckDeclaration], and by the start.
//
//	mgr.Add(kopf.New(mgr, kopf.For(&v1.Database{}).OnCreate("provision", provision)))
func New(mgr manager.Manager, opts ...Option) *Operator {
	o := &Operator{mgr: mgr, stuckAfter: defaultStuckAfter, watchCheck: defaultWatchCheck, lease: defaultLease, settings: engine.Settings{
		Store:      progress.Smart(),
		Baseline:   progress.AnnotationBaseline(""),
		Finalizer:  DefaultFinalizer,
		Lifecycle:  progress.AllAtOnce,
		Checkpoint: defaultCheckpoint,
	}}
	for _, opt := range opts {
		if opt == nil {
			o.addError(errors.New("an option is nil: leave it out"))
			continue
		}
		opt.applyTo(o)
	}
	if err := o.setupWebhooks(); err != nil {
		o.addError(err)
	}
	return o
}

// SetupWithManager declares an operator, validates it, and adds it to the manager, with its checks: liveness
// ([Operator.Healthz]) and readiness ([Operator.Readyz]), as "kopf-<kind>" with the names of its kinds, and its probes, if it has any, on the
// metrics server (see [Operator.ServeProbes]), and what its peering says (see [Operator.ServePeering]). A second operator of one manager is
// to be added by mgr.Add(kopf.New(...)) if its probes or its peering get into the way of the first.
func SetupWithManager(mgr manager.Manager, opts ...Option) error {
	o := New(mgr, opts...)
	if err := o.CheckDeclaration(); err != nil {
		return err
	}
	if err := mgr.Add(o); err != nil {
		return err
	}
	if len(o.probes.list) > 0 {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/probes", o.ServeProbes()); err != nil {
			return err
		}
	}
	if o.peers != nil {
		if err := mgr.AddMetricsServerExtraHandler("/kopf/peering", o.ServePeering()); err != nil {
			return err
		}
	}
	name := o.healthCheckName()
	if err := errors.Join(mgr.AddHealthzCheck(name, o.Healthz), mgr.AddReadyzCheck(name, o.Readyz)); err != nil {
		// A manager that is running takes operators, but no checks.
		mgr.GetLogger().Info("The operator has no health checks: they have to be added before the manager is started", "error", err.Error())
	}
	return nil
}

// checkName tells the checks of several operators of one manager apart.
func (o *Operator) healthCheckName() string {
	names := []string{"kopf"}
	for _, r := range o.resources {
		names = append(names, r.controllerName(o.mgr.GetScheme()))
	}
	return strings.Join(names, "-")
}

// NeedLeaderElection is true unless the manager's controllers are set not to need it: one replica
// handles, the others wait.
func (o *Operator) NeedLeaderElection() bool {
	if o.mgr == nil {
		return true
	}
	if need := o.mgr.GetControllerOptions().NeedLeaderElection; need != nil {
		return *need
	}
	return true
}

func (o *Operator) addError(err error) { o.errs = append(o.errs, err) }
