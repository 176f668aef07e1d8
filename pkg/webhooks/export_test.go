package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Serve serves hooks as a server does, without one.
func Serve(scheme *runtime.Scheme, o Options, logger logr.Logger, hooks ...Hook) (http.Handler, error) {
	return ServePatiently(patience, scheme, o, logger, hooks...)
}

// ServePatiently waits for reviews for another time.
func ServePatiently(patience time.Duration, scheme *runtime.Scheme, o Options, logger logr.Logger, hooks ...Hook) (http.Handler, error) {
	o = o.withDefaults()
	all, err := prepare(scheme, o, hooks)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, n := range all {
		e, err := newEndpoint(n.Hook, n.gvk, admission.NewDecoder(scheme), nil)
		if err != nil {
			return nil, err
		}
		mux.Handle(o.prefix()+"/"+n.path, handlerFor(e, logger, patience, func() bool { return false }))
	}
	return mux, nil
}

var (
	PatchOf     = patchOf
	Normalize   = normalize
	Quote       = quote
	CheckOf     = func(o Options) error { return o.withDefaults().check() }
	DrainOf     = func(o Options, namespaceFile string) time.Duration { return o.withDefaultsOf(namespaceFile).Drain }
	HomeOf      = func(o Options, namespaceFile string) string { return o.withDefaultsOf(namespaceFile).home }
	NewRotation = func(lifetime, settle time.Duration, hosts []string) rotation {
		return rotation{lifetime: lifetime, before: lifetime / 3, settle: settle, hosts: hosts, issue: issue}
	}
)

type (
	Keychain = keychain
	Rotation = rotation
	Pair     = pair
)

func (r rotation) Step(k keychain, now time.Time, confirmed bool) (keychain, bool, time.Duration, error) {
	return r.step(k, now, confirmed)
}

func (k keychain) Serving() *pair { return k.serving }
func (k keychain) Next() *pair    { return k.next }
func (k keychain) Trusts(p *pair) bool {
	for _, ca := range k.trusted {
		if ca.Equal(p.ca) {
			return true
		}
	}
	return false
}
func (k keychain) Size() int { return len(k.trusted) }

func (p *pair) NotAfter() time.Time        { return p.leaf.NotAfter }
func (p *pair) Covers(hosts []string) bool { return p.covers(hosts) }

// Stored is what becomes of a keychain in a Secret.
func Stored(k keychain, secret *corev1.Secret) (keychain, error) {
	if err := writeSecret(secret, k); err != nil {
		return k, err
	}
	return readSecret(secret)
}

// ReadSecret reads what is stored.
func ReadSecret(secret *corev1.Secret) (keychain, error) { return readSecret(secret) }

// NewKeyring is that of one replica.
func NewKeyring(c client.Client, key client.ObjectKey, r rotation, now func() time.Time) *keyring {
	return &keyring{rotation: r, client: c, key: key, now: now, notify: func() {}}
}

func (k *keyring) Load(ctx context.Context) error { return k.load(ctx) }

func (k *keyring) Step(ctx context.Context, confirmed []byte) (time.Duration, error) {
	return k.step(ctx, confirmed)
}

func (k *keyring) Bundle() []byte {
	bundle, err := k.bundle()
	if err != nil {
		panic(err)
	}
	return bundle
}

func (k *keyring) TryBundle() ([]byte, error) { return k.bundle() }

func (k *keyring) See(ctx context.Context, secret *corev1.Secret) { k.see(ctx, secret) }

// Claims counts what servers of a manager have for themselves.
func Claims(mgr manager.Manager) (n int) {
	claims.Range(func(key, _ any) bool {
		switch key := key.(type) {
		case applied:
			if key.mgr == mgr {
				n++
			}
		case shown:
			if key.mgr == mgr {
				n++
			}
		}
		return true
	})
	return n
}

// BundleOf is what the CAs in a file make of the bundle, each time it is called.
func BundleOf(path string, now func() time.Time) func() ([]byte, error) {
	return (&caFile{path: path, now: now}).bundle
}
