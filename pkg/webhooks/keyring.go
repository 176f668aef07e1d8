package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A keyring is the Secret of [SelfManaged] certificates, as one replica knows it.
type keyring struct {
	rotation
	client client.Client // straight to the API server
	key    client.ObjectKey
	now    func() time.Time
	notify func() // of a new state

	current atomic.Pointer[tls.Certificate]

	mu    sync.Mutex
	known keychain // the newest one seen
}

// GetCertificate is for the server's TLS configuration. The first call may come before anything else is
// running, as webhook servers are started first: then it is the one that looks.
func (k *keyring) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := k.current.Load(); cert != nil {
		return cert, nil
	}
	if err := k.load(hello.Context()); err != nil {
		return nil, err
	}
	return k.current.Load(), nil
}

// load reads the Secret, or creates it: of all replicas that try, one succeeds.
func (k *keyring) load(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current.Load() != nil {
		return nil
	}
	_, _, err := k.advance(ctx, nil)
	return err
}

// step keeps the Secret as it should be, one step at a time. Confirmed is the bundle that stands in the configurations;
// nil if that is not certain.
func (k *keyring) step(ctx context.Context, confirmed []byte) (time.Duration, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed, next, err := k.advance(ctx, confirmed)
	if err == nil && changed {
		next = time.Nanosecond // there may be more to do, now that this is stored
	}
	return next, err
}

// advance makes one step on the newest state. If somebody else is faster, it takes what they have made of it.
func (k *keyring) advance(ctx context.Context, confirmed []byte) (changed bool, next time.Duration, err error) {
	secret := &corev1.Secret{}
	err = k.client.Get(ctx, k.key, secret)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return false, 0, k.explain("read", err)
	}
	var stored keychain
	if exists {
		var broken error
		if stored, broken = readSecret(secret); broken != nil {
			log.FromContext(ctx).Info("Warning: the Secret of the certificates is broken, and will be repaired",
				"secret", k.key, "error", broken.Error())
		}
	}
	restored := stored.serving == nil && k.known.serving != nil
	if restored {
		// It was deleted or broken while all replicas still use what was in it, which is trusted, other than anything new. To
		// delete it is to ask for another certificate: that is a rotation like any other.
		stored.restore(k.known)
	}
	bundle, err := encode(stored.trusted)
	if err != nil {
		return false, 0, err
	}
	// A bundle that others have changed meanwhile is not what was confirmed.
	wanted, changed, next, err := k.rotation.step(stored, k.now(), bundle != nil && bytes.Equal(bundle, confirmed))
	if err != nil {
		return false, 0, err
	}
	changed = changed || restored
	if changed {
		if err := k.store(ctx, secret, exists, wanted); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return k.again(ctx)
			}
			return false, 0, err
		}
		wanted.version = secret.ResourceVersion
	}
	k.take(wanted)
	return changed, next, nil
}

// again takes over what another replica has written.
func (k *keyring) again(ctx context.Context) (bool, time.Duration, error) {
	secret := &corev1.Secret{}
	if err := k.client.Get(ctx, k.key, secret); err != nil {
		return false, 0, k.explain("read", err)
	}
	stored, err := readSecret(secret)
	if stored.serving == nil {
		return false, 0, errors.Join(errors.New("the Secret was changed by others, and is broken"), err)
	}
	k.take(stored)
	return true, 0, nil
}

func (k *keyring) store(ctx context.Context, secret *corev1.Secret, exists bool, wanted keychain) error {
	if !exists {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: k.key.Namespace, Name: k.key.Name}
		secret.Type = corev1.SecretTypeTLS
	}
	if err := writeSecret(secret, wanted); err != nil {
		return err
	}
	if !exists {
		return k.explain("created", k.client.Create(ctx, secret))
	}
	return k.explain("updated", k.client.Update(ctx, secret)) // with the version that was read
}

func (k *keyring) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the Secret %s of the certificates cannot be %s: %w", k.key, what, err)
}

// see is told of each state of the Secret.
func (k *keyring) see(ctx context.Context, secret *corev1.Secret) {
	stored, err := readSecret(secret)
	if err != nil {
		log.FromContext(ctx).Info("Warning: the Secret of the certificates is broken", "secret", k.key, "error", err.Error())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if stored.serving != nil && !stored.older(k.known) {
		k.take(stored)
	}
	k.notify()
}

// take uses a keychain. The caller has the lock.
func (k *keyring) take(chain keychain) {
	k.known = chain
	k.current.Store(chain.serving.tls)
}

// bundle is what the API server has to trust. Entries without one would be called in vain, so it fails until it is known.
func (k *keyring) bundle() ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known.serving == nil {
		return nil, fmt.Errorf("the Secret %s of the certificates has not been read yet", k.key)
	}
	return encode(k.known.trusted)
}
