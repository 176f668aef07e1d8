package webhooks

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// secretWatcher watches the Secret in every replica, and keeps the webhook server running during the drain time. It also releases the
// reservations when it stops, because it runs even in replicas that never become the leader.
type secretWatcher struct {
	mgr        manager.Manager
	store      *certStore // store of self-managed certificates; nil without them
	drain      time.Duration
	startDrain func()
	release    func() // releases the reservations
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*secretWatcher) NeedLeaderElection() bool { return false }

// Start blocks until the manager stops and the drain time has passed. Managers stop webhook servers after all other runnables, so the
// webhook server runs until then.
func (w *secretWatcher) Start(ctx context.Context) error {
	defer w.release()
	ctx = log.IntoContext(ctx, w.mgr.GetLogger().WithName("webhooks"))
	// Watch the Secret until the last request is answered.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, watching := errgroup.WithContext(watching)
	if w.store != nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.store.key.Namespace, Name: w.store.key.Name}}
		group.Go(func() error {
			if err := retryUntilSuccess(watching, "Failed to load the certificates", func() error {
				return w.store.load(watching)
			}); err != nil {
				return err
			}
			return watchObject(watching, w.mgr, secret, func(obj client.Object) {
				if secret, ok := obj.(*corev1.Secret); ok {
					w.store.observe(watching, secret)
				}
			})
		})
	}
	select {
	case <-ctx.Done():
	case <-watching.Done():
		return group.Wait()
	}
	w.startDrain()
	timer := time.NewTimer(w.drain)
	defer timer.Stop()
	<-timer.C
	cancel()
	return group.Wait()
}
