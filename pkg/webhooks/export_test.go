package webhooks

import (
	"context"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Serve returns a handler for hooks without a manager.
func Serve(scheme *runtime.Scheme, o Options, logger logr.Logger, hooks ...Hook) (http.Handler, error) {
	return ServeWithReadTimeout(reviewReadTimeout, scheme, o, logger, hooks...)
}

// ServeWithReadTimeout is Serve with another read timeout.
func ServeWithReadTimeout(patience time.Duration, scheme *runtime.Scheme, o Options, logger logr.Logger, hooks ...Hook) (http.Handler, error) {
	o = o.withDefaults()
	all, err := prepareHooks(scheme, o, hooks)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	for _, n := range all {
		e, err := newEndpoint(n.Hook, n.gvk, admission.NewDecoder(scheme), nil)
		if err != nil {
			return nil, err
		}
		mux.Handle(o.pathPrefix()+"/"+n.path, newHTTPHandler(e, logger, patience, func() bool { return false }))
	}
	return mux, nil
}

var (
	ComputePatch   = computePatch
	ToDNSName      = toDNSName
	ToPath         = toPath
	CheckOf        = func(o Options) error { return o.withDefaults().check() }
	DrainOf        = func(o Options, namespaceFile string) time.Duration { return o.withDefaultsFrom(namespaceFile).Drain }
	PodNamespaceOf = func(o Options, namespaceFile string) string { return o.withDefaultsFrom(namespaceFile).podNamespace }
	// PodNamespaceFor returns the excluded namespace of an operator with a connection.
	PodNamespaceFor = func(o Options, namespaceFile string, config *rest.Config) string {
		return o.withDefaultsFrom(namespaceFile).forConnection(config).podNamespace
	}
	NewRotation = func(lifetime, settle time.Duration, hosts []string) rotation {
		return rotation{lifetime: lifetime, renewBefore: lifetime / 3, propagationDelay: settle, hosts: hosts, issueKeyPair: issueKeyPair}
	}
)

type (
	CertBundle = certBundle
	Rotation   = rotation
	KeyPair    = keyPair
)

func (r rotation) Advance(k certBundle, now time.Time, confirmed bool) (certBundle, bool, time.Duration, error) {
	return r.advance(k, now, confirmed)
}

func (b certBundle) Serving() *keyPair { return b.serving }
func (b certBundle) Next() *keyPair    { return b.next }
func (b certBundle) Trusts(p *keyPair) bool {
	for _, ca := range b.trusted {
		if ca.Equal(p.ca) {
			return true
		}
	}
	return false
}
func (b certBundle) Size() int { return len(b.trusted) }

func (p *keyPair) NotAfter() time.Time        { return p.leaf.NotAfter }
func (p *keyPair) Covers(hosts []string) bool { return p.covers(hosts) }

// StoreAndParse writes a bundle into a Secret and parses it again.
func StoreAndParse(k certBundle, secret *corev1.Secret) (certBundle, error) {
	if err := fillSecret(secret, k); err != nil {
		return k, err
	}
	return parseSecret(secret)
}

// ParseSecret parses a Secret.
func ParseSecret(secret *corev1.Secret) (certBundle, error) { return parseSecret(secret) }

// NewCertStore returns the store of one replica.
func NewCertStore(c client.Client, key client.ObjectKey, r rotation, now func() time.Time) *certStore {
	return &certStore{rotation: r, client: c, key: key, now: now, onChange: func() {}}
}

func (s *certStore) Load(ctx context.Context) error { return s.load(ctx) }

func (s *certStore) Rotate(ctx context.Context, confirmed []byte) (time.Duration, error) {
	return s.rotate(ctx, confirmed)
}

func (s *certStore) CABundle() []byte {
	bundle, err := s.caBundle()
	if err != nil {
		panic(err)
	}
	return bundle
}

func (s *certStore) TryCABundle() ([]byte, error) { return s.caBundle() }

func (s *certStore) Observe(ctx context.Context, secret *corev1.Secret) { s.observe(ctx, secret) }

// Reservations returns the number of reservations of a manager's servers.
func Reservations(mgr manager.Manager) (n int) {
	reservations.Range(func(key, _ any) bool {
		switch key := key.(type) {
		case configurationReservation:
			if key.mgr == mgr {
				n++
			}
		case certificateReservation:
			if key.mgr == mgr {
				n++
			}
		}
		return true
	})
	return n
}

// CABundleOf returns the caBundle function of a CA file.
func CABundleOf(path string, now func() time.Time) func() ([]byte, error) {
	return (&caFile{path: path, now: now}).caBundle
}
