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

// certStore holds one replica's certificates and synchronizes them with the Secret of [SelfManaged] certificates.
type certStore struct {
	rotation
	client   client.Client // client without a cache
	key      client.ObjectKey
	now      func() time.Time
	onChange func() // called after each event of the Secret

	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex
	latest certBundle // the newest known content of the Secret
}

// GetCertificate implements tls.Config.GetCertificate. Managers start the webhook server before other runnables, so the first call loads
// the Secret if necessary.
func (s *certStore) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.current.Load(); cert != nil {
		return cert, nil
	}
	if err := s.load(hello.Context()); err != nil {
		return nil, err
	}
	return s.current.Load(), nil
}

// load reads the Secret, or creates it if it doesn't exist. If several replicas try to create it at the same time, one succeeds and the
// others use its Secret.
func (s *certStore) load(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current.Load() != nil {
		return nil
	}
	_, _, err := s.rotateOnce(ctx, nil)
	return err
}

// rotate implements caProvider.
func (s *certStore) rotate(ctx context.Context, published []byte) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, next, err := s.rotateOnce(ctx, published)
	if err == nil && changed {
		next = time.Nanosecond // the next step may be possible immediately after the stored change
	}
	return next, err
}

// rotateOnce executes one step of the rotation on the stored state. If a different replica writes the Secret first, rotateOnce uses its
// certificates.
func (s *certStore) rotateOnce(ctx context.Context, published []byte) (changed bool, next time.Duration, err error) {
	secret := &corev1.Secret{}
	err = s.client.Get(ctx, s.key, secret)
	exists := err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		return false, 0, s.wrapError("reading", err)
	}
	var stored certBundle
	if exists {
		var parseErr error
		if stored, parseErr = parseSecret(secret); parseErr != nil {
			log.FromContext(ctx).Info("Repairing the invalid Secret of the certificates",
				"secret", s.key, "error", parseErr.Error())
		}
	}
	restored := stored.serving == nil && s.latest.serving != nil
	if restored {
		// The Secret was deleted or damaged, but all replicas still use its certificate, and API servers trust only its CAs. Users delete
		// the Secret to get a new certificate, so restore the old one and start a regular rotation.
		stored.restoreFrom(s.latest)
	}
	bundle, err := encodeCAs(stored.trusted)
	if err != nil {
		return false, 0, err
	}
	// If a different replica changed the bundle in the Secret, the published bundle is outdated.
	wanted, changed, next, err := s.rotation.advance(stored, s.now(), bundle != nil && bytes.Equal(bundle, published))
	if err != nil {
		return false, 0, err
	}
	changed = changed || restored
	if changed {
		if err := s.save(ctx, secret, exists, wanted); err != nil {
			if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
				return s.adoptStored(ctx)
			}
			return false, 0, err
		}
		wanted.version = secret.ResourceVersion
	}
	s.use(wanted)
	return changed, next, nil
}

// adoptStored uses the Secret that a different replica has written.
func (s *certStore) adoptStored(ctx context.Context) (bool, time.Duration, error) {
	secret := &corev1.Secret{}
	if err := s.client.Get(ctx, s.key, secret); err != nil {
		return false, 0, s.wrapError("reading", err)
	}
	stored, err := parseSecret(secret)
	if stored.serving == nil {
		return false, 0, errors.Join(fmt.Errorf("the Secret %s written by another replica is invalid", s.key), err)
	}
	s.use(stored)
	return true, 0, nil
}

func (s *certStore) save(ctx context.Context, secret *corev1.Secret, exists bool, wanted certBundle) error {
	if !exists {
		secret.ObjectMeta = metav1.ObjectMeta{Namespace: s.key.Namespace, Name: s.key.Name}
		secret.Type = corev1.SecretTypeTLS
	}
	if err := fillSecret(secret, wanted); err != nil {
		return err
	}
	if !exists {
		return s.wrapError("creating", s.client.Create(ctx, secret))
	}
	return s.wrapError("updating", s.client.Update(ctx, secret)) // fails if the Secret was changed since it was read
}

func (s *certStore) wrapError(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s the Secret %s of the certificates: %w", operation, s.key, err)
}

// observe uses the certificates in a Secret from the watch, unless they are invalid or outdated.
func (s *certStore) observe(ctx context.Context, secret *corev1.Secret) {
	stored, err := parseSecret(secret)
	if err != nil {
		log.FromContext(ctx).Info("Observed an invalid Secret of the certificates", "secret", s.key, "error", err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if stored.serving != nil && !stored.isOlderThan(s.latest) {
		s.use(stored)
	}
	s.onChange()
}

// use serves a bundle's certificate. The caller must hold the lock.
func (s *certStore) use(bundle certBundle) {
	s.latest = bundle
	s.current.Store(bundle.serving.tls)
}

// caBundle returns the trusted CAs. It returns an error until the Secret has been read, because API servers can't call webhooks whose
// entries have no CA.
func (s *certStore) caBundle() ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest.serving == nil {
		return nil, fmt.Errorf("the Secret %s of the certificates is not loaded yet", s.key)
	}
	return encodeCAs(s.latest.trusted)
}
