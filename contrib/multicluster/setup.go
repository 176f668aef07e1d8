package kopfmulticluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Cluster is an engaged cluster.
type Cluster struct {
	cluster.Cluster
	Name multicluster.ClusterName
}

// retryInterval is the time after which the operator of a cluster is started again when it has failed.
const retryInterval = 30 * time.Second

// Setup runs one operator in each cluster that the provider of the manager engages. The function each returns the resources and
// options for a cluster. It is called once for each engagement, and must declare new resources each time, because operators do
// not share them. Call Setup at most once for a manager.
//
// The operators start when the manager is the leader. An engagement has ended when its operator has returned: until then, a cluster with the same name waits.
// If an operator fails, for example because its cluster is not reachable, it is started again after 30 seconds.
//
// The provider receives an error for a cluster without a name or with an invalid declaration, and for a name that is engaged
// with another connection. If two names lead to the same cluster, only the first one has an operator. For the other name, Setup
// tries to start an operator every 30 seconds, and the readiness check fails. Clusters are the same if their namespaces
// kube-system have the same uid. If the operator cannot get this namespace, the addresses of the clusters are compared.
//
// Setup adds the checks "kopf-clusters". The liveness check fails if one of the operators is stuck. The readiness check names the clusters whose operators are
// not ready.
func Setup(mgr mcmanager.Manager, each func(Cluster) []kopf.Option) error {
	return setup(mgr, each, retryInterval)
}

func setup(mgr mcmanager.Manager, each func(Cluster) []kopf.Option, retry time.Duration) error {
	switch {
	case mgr == nil:
		return errors.New("the manager is nil: pass a manager of multicluster-runtime")
	case each == nil:
		return errors.New("the function for clusters is nil: pass a function that returns the options of an operator")
	}
	o := &operators{
		local: mgr.GetLocalManager(), each: each, retry: retry, leading: make(chan struct{}),
		engagements: map[multicluster.ClusterName]*engagement{}, names: map[string]multicluster.ClusterName{},
	}
	if err := mgr.Add(o); err != nil {
		return err
	}
	return errors.Join(mgr.AddHealthzCheck("kopf-clusters", o.healthz), mgr.AddReadyzCheck("kopf-clusters", o.readyz))
}

// operators runs the operators of all engaged clusters.
type operators struct {
	local   manager.Manager
	each    func(Cluster) []kopf.Option
	retry   time.Duration
	leading chan struct{} // closed by Start
	running sync.WaitGroup

	mu          sync.Mutex
	stopped     bool
	engagements map[multicluster.ClusterName]*engagement // the last engagement of each name, until it has ended
	names       map[string]multicluster.ClusterName      // names of clusters with running operators, by identity
}

var (
	_ mcmanager.Runnable             = (*operators)(nil)
	_ manager.LeaderElectionRunnable = (*operators)(nil)
)

// NeedLeaderElection implements [manager.LeaderElectionRunnable], as a single operator does.
func (o *operators) NeedLeaderElection() bool {
	need := o.local.GetControllerOptions().NeedLeaderElection
	return need == nil || *need
}

// Start implements [manager.Runnable]. It returns when all operators have returned.
func (o *operators) Start(ctx context.Context) error {
	close(o.leading)
	<-ctx.Done()
	o.mu.Lock()
	o.stopped = true
	for _, e := range o.engagements {
		e.cancel()
	}
	o.mu.Unlock()
	o.running.Wait()
	return nil
}

// Engage implements [multicluster.Aware]. The context ends with the engagement.
func (o *operators) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	if name == "" {
		return errors.New("engaging a cluster: the name is empty: set a name, which metrics and logs contain")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	former := o.engagements[name]
	switch {
	case o.stopped:
		return fmt.Errorf("engaging cluster %q: the manager is stopping", name)
	case former != nil && former.ctx.Err() == nil && former.cluster.Cluster == cl:
		return nil
	case former != nil && former.ctx.Err() == nil:
		return fmt.Errorf("engaging cluster %q: the name is engaged with another connection: end that engagement first", name)
	}
	e := &engagement{operators: o, cluster: Cluster{cl, name}, ended: make(chan struct{})}
	e.options = o.each(e.cluster)
	e.operator = e.newOperator()
	if err := e.operator.CheckDeclaration(); err != nil {
		return fmt.Errorf("engaging cluster %q: %w", name, err)
	}
	e.ctx, e.cancel = context.WithCancel(ctx)
	o.engagements[name] = e
	o.running.Go(func() { e.run(former) })
	return nil
}

// forget removes an engagement that has ended.
func (o *operators) forget(e *engagement) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.engagements[e.cluster.Name] == e {
		delete(o.engagements, e.cluster.Name)
	}
}

// claim reserves a cluster for the operator of one name until release is called.
func (o *operators) claim(identity string, name multicluster.ClusterName) (release func(), err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other, taken := o.names[identity]; taken {
		return nil, fmt.Errorf("cluster %q is the same as cluster %q (%s): remove one of them", name, other, identity)
	}
	o.names[identity] = name
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.names, identity)
	}, nil
}
