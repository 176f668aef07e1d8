package kopf

import (
	"context"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventrecorder"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/peers"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/probes"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// An Operator runs the handlers of its resources. Create it with [New] and add it to the manager, or let [SetupWithManager] do both. By
// default, it needs leader election.
type Operator struct {
	// mgr isn't embedded, because the operator would then implement more of controller-runtime's runnable interfaces.
	mgr manager.Manager
	declared
	functions functions
	kinds     *kinds.Runtime
	peers     *peers.Part // nil without WithPeering
	rights    rightsPart
}

// declared contains what the options declare, except for what the kinds share. It doesn't change after [New], apart from results that are
// computed once.
type declared struct {
	resources  []resource
	selections []*kindSelection // declarations of ForKinds
	added      []operator.Part  // parts added by options; they open last
	errs       []error          // mistakes in the options

	checking sync.Mutex                    // held while the declaration is checked
	resolved func() ([]engine.Kind, error) // the result of engineKinds that Warmup and Start share

	lease          operator.LeaseDurations
	webhookOptions *webhooks.Options
	eventNames     *eventrecorder.ReporterIdentity // for Events in kopf's form; nil for the other form
	attempts       *statuspage.Attempts            // for the status page; nil without WithStatusPage

	stuckAfter  time.Duration
	needs       []declaredNeed // declarations of Needs
	neededRules []rbacv1.PolicyRule
}

// functions belong to the operator rather than to a kind.
type functions struct {
	startup, cleanup []*activity
	versions         []*activity // functions of OnVersion
	probes           probes.Probes
	memos            objectstate.Memos
}

var _ interface {
	manager.Runnable
	manager.LeaderElectionRunnable
	Warmup(context.Context) error
} = (*Operator)(nil)

func (d *declared) addError(err error) { d.errs = append(d.errs, err) }

// An Option configures an [Operator]. A [Resource] is also an Option.
type Option interface{ applyTo(*Operator) }

type optionFunc func(*Operator)

func (f optionFunc) applyTo(o *Operator) { f(o) }

// An activity is a function passed to [OnStartup], [OnCleanup] or [OnVersion].
type activity struct {
	declaration
	fn    func(context.Context) error
	hints invoke.Warnings
}

// A declaredNeed holds the arguments of one [Needs] option.
type declaredNeed struct {
	obj   client.Object
	verbs []string
}

// A kindSelection is a declaration of ForKinds.
type kindSelection struct {
	selector KindSelector
	declare  func(metav1.APIResource) Option
	operator *Operator
}

// warmsUp reports whether Warmup fills the caches before the operator starts.
func (o *Operator) warmsUp() bool {
	if o.mgr == nil || !o.NeedLeaderElection() {
		return false
	}
	enabled := o.mgr.GetControllerOptions().EnableWarmup
	return enabled != nil && *enabled
}

// NeedLeaderElection implements manager.LeaderElectionRunnable. It returns true unless the manager's controller options set
// NeedLeaderElection to false, or the operator uses [WithSharding].
func (o *Operator) NeedLeaderElection() bool {
	if o.kinds.Ring != nil {
		return false
	}
	if o.mgr == nil {
		return true
	}
	if need := o.mgr.GetControllerOptions().NeedLeaderElection; need != nil {
		return *need
	}
	return true
}
