package kopf

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// An Operator calls the handlers of its resources. It is a manager.Runnable: add it to a manager.
type Operator struct {
	// The manager must not be embedded: the operator would get methods by which another manager
	// takes it for something else.
	mgr       manager.Manager
	settings  engine.Settings
	resources []resource
	wrappers  []func(reconcile.Reconciler) reconcile.Reconciler
	mistakes  []error
}

var _ interface {
	manager.Runnable
	manager.LeaderElectionRunnable
} = (*Operator)(nil)

// New declares an operator. It never fails and starts nothing: mistakes are told by [Operator.Validate],
// and by the start.
//
//	mgr.Add(kopf.New(mgr, kopf.For(&v1.Database{}).OnCreate("provision", provision)))
func New(mgr manager.Manager, opts ...Option) *Operator {
	o := &Operator{mgr: mgr, settings: engine.Settings{
		Store:      progress.Smart(),
		Baseline:   progress.AnnotationBaseline(""),
		Finalizer:  DefaultFinalizer,
		Lifecycle:  progress.AllAtOnce,
		Checkpoint: DefaultCheckpoint,
	}}
	for _, opt := range opts {
		if opt == nil {
			o.mistake(errors.New("an option is nil: leave it out"))
			continue
		}
		opt.applyTo(o)
	}
	return o
}

// SetupWithManager declares an operator, validates it, and adds it to the manager.
func SetupWithManager(mgr manager.Manager, opts ...Option) error {
	o := New(mgr, opts...)
	if err := o.Validate(); err != nil {
		return err
	}
	return mgr.Add(o)
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

func (o *Operator) mistake(err error) { o.mistakes = append(o.mistakes, err) }
