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

// A custodian has every replica see the Secret, and keeps the server up for the drain. It runs in all replicas, also in those that
// never lead, and so it gives back the claims.
type custodian struct {
	mgr     manager.Manager
	keyring *keyring // nil: there is none
	drain   time.Duration
	leaving func()
	release func() // of the claims, at the end
}

// NeedLeaderElection makes it run in all replicas.
func (*custodian) NeedLeaderElection() bool { return false }

// Start returns when the server may stop: managers stop webhook servers after everything else.
func (c *custodian) Start(ctx context.Context) error {
	defer c.release()
	ctx = log.IntoContext(ctx, c.mgr.GetLogger().WithName("webhooks"))
	// The Secret is watched for as long as there are requests.
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	group, watching := errgroup.WithContext(watching)
	if c.keyring != nil {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.keyring.key.Namespace, Name: c.keyring.key.Name}}
		group.Go(func() error {
			if err := persist(watching, "There are no certificates yet; it will be tried again", func() error {
				return c.keyring.load(watching)
			}); err != nil {
				return err
			}
			return watch(watching, c.mgr, secret, func(obj client.Object) {
				if secret, ok := obj.(*corev1.Secret); ok {
					c.keyring.see(watching, secret)
				}
			})
		})
	}
	select {
	case <-ctx.Done():
	case <-watching.Done():
		return group.Wait()
	}
	c.leaving()
	timer := time.NewTimer(c.drain)
	defer timer.Stop()
	<-timer.C
	cancel()
	return group.Wait()
}
