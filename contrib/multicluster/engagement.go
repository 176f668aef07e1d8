package kopfmulticluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// An engagement runs the operator of one cluster until its context ends.
type engagement struct {
	operators *operators
	cluster   Cluster
	options   []kopf.Option
	ctx       context.Context //nolint:containedctx // the context of the engagement
	cancel    context.CancelFunc
	ended     chan struct{} // closed when the operator has returned

	mu       sync.Mutex
	operator *kopf.Operator
	started  bool
	failure  error // error of the last start; nil while the operator runs
}

func (e *engagement) newOperator() *kopf.Operator {
	return kopf.New(&clusterManager{Cluster: e.cluster.Cluster, local: e.operators.local, name: e.cluster.Name.String()}, e.options...)
}

// run starts the operator when the former engagement of the name has ended and the manager is the leader, and starts it again after failures.
func (e *engagement) run(former *engagement) {
	defer e.cancel()
	defer close(e.ended)
	defer e.operators.forget(e)
	if former != nil {
		<-former.ended
	}
	select {
	case <-e.operators.leading:
	case <-e.ctx.Done():
		return
	}
	log := e.operators.local.GetLogger().WithValues("cluster", e.cluster.Name)
	for {
		err := e.runOperator()
		if e.ctx.Err() != nil {
			if err != nil {
				log.Error(err, "The operator of a cluster has ended with an error")
			}
			return
		}
		if err == nil {
			err = fmt.Errorf("the operator has ended before its engagement")
		}
		log.Error(err, "The operator of a cluster has failed; it will be started again", "retryAfter", e.operators.retry.String())
		e.set(e.newOperator(), false, err)
		select {
		case <-time.After(e.operators.retry):
		case <-e.ctx.Done():
			return
		}
	}
}

// runOperator reserves the cluster and runs the operator once.
func (e *engagement) runOperator() error {
	identity, err := identityOf(e.ctx, e.cluster)
	if err != nil {
		return err
	}
	release, err := e.operators.claim(identity, e.cluster.Name)
	if err != nil {
		return err
	}
	defer release()
	e.set(e.operator, true, nil)
	return e.operator.Start(e.ctx)
}

func (e *engagement) set(operator *kopf.Operator, started bool, failure error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.operator, e.started, e.failure = operator, started, failure
}

// reachTimeout limits the first request to a cluster.
const reachTimeout = 10 * time.Second

// identityOf returns a text that two connections to one cluster have in common: the uid of the namespace kube-system, or else the address.
func identityOf(ctx context.Context, c Cluster) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	err := c.GetAPIReader().Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace)
	switch {
	case err == nil:
		return "uid " + string(namespace.UID), nil
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		return "address " + c.GetConfig().Host + c.GetConfig().APIPath, nil
	default:
		return "", fmt.Errorf("cluster %q at %s is not reachable: %w", c.Name, c.GetConfig().Host, err)
	}
}
