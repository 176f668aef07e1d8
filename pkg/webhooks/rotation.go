package webhooks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// keyPair is a certificate with its CA and its private key.
type keyPair struct {
	cert, key []byte // PEM
	tls       *tls.Certificate
	leaf, ca  *x509.Certificate
}

func parseKeyPair(cert, key []byte) (*keyPair, error) {
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if len(parsed.Certificate) < 2 {
		return nil, errors.New("the certificate chain lacks the CA")
	}
	ca, err := x509.ParseCertificate(parsed.Certificate[1])
	if err != nil {
		return nil, err
	}
	return &keyPair{cert: cert, key: key, tls: &parsed, leaf: parsed.Leaf, ca: ca}, nil
}

func (p *keyPair) isValid(now time.Time) bool { return now.Before(p.leaf.NotAfter) }

func (p *keyPair) covers(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return p.leaf.VerifyHostname(host) != nil })
}

// hosts returns the names and addresses of the certificate.
func (p *keyPair) hosts() []string {
	hosts := slices.Clone(p.leaf.DNSNames)
	for _, ip := range p.leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// certBundle is the content of the Secret, which all replicas use.
type certBundle struct {
	serving      *keyPair            // key pair that all replicas use
	next         *keyPair            // the successor of serving; nil outside of a rotation
	trusted      []*x509.Certificate // the CAs that API servers must trust
	trustedSince time.Time           // when the configurations first contained the CA of next; zero until then
	forceRenewal bool                // whether a rotation must start early, because the Secret was lost
	version      string              // resourceVersion of the Secret
}

// isOlderThan reports whether the bundle was stored before the other one. Watch events can be older than the replica's last write.
func (b certBundle) isOlderThan(other certBundle) bool {
	order, err := resourceversion.CompareResourceVersion(b.version, other.version)
	return err == nil && order < 0
}

// restoreFrom copies the certificate and the CAs of the latest known bundle, and makes the rotation start early.
func (b *certBundle) restoreFrom(latest certBundle) {
	b.serving, b.forceRenewal = latest.serving, true
	for _, ca := range latest.trusted {
		b.trust(ca)
	}
}

// rotation contains the parameters for replacing certificates.
type rotation struct {
	lifetime, renewBefore, propagationDelay time.Duration
	hosts                                   []string
	issueKeyPair                            func(hosts []string, lifetime time.Duration) (*keyPair, error)
}

// advance returns the next state of a bundle, whether the state has changed, and the delay until the next call. published reports whether
// the webhook configurations contain all trusted CAs. Each call executes only one step, because the result must be stored before the next
// one.
func (r rotation) advance(b certBundle, now time.Time, published bool) (certBundle, bool, time.Duration, error) {
	b.trusted = slices.Clone(b.trusted)
	changed := b.prune(now)
	if b.next != nil && (!b.next.isValid(now) || !b.next.covers(r.hosts)) {
		b.next, b.trustedSince = nil, time.Time{}
		changed = true
	}
	switch {
	case b.serving == nil || !b.serving.isValid(now):
		// No valid certificate is in use, so waiting wouldn't help.
		replacement := b.next
		if replacement == nil {
			var err error
			if replacement, err = r.issueKeyPair(r.hosts, r.lifetime); err != nil {
				return b, false, 0, err
			}
		}
		b.trust(replacement.ca)
		b.serving, b.next, b.trustedSince = replacement, nil, time.Time{}
		return b, true, 0, nil

	case b.next == nil && (b.forceRenewal || r.untilRenewal(b.serving, now) <= 0 || !b.serving.covers(r.hosts)):
		hosts := r.hosts
		if !b.serving.covers(r.hosts) {
			// Include the hosts of the old certificate, because replicas of a different version may need them and would otherwise start a
			// new rotation.
			hosts = union(r.hosts, b.serving.hosts())
		}
		next, err := r.issueKeyPair(hosts, r.lifetime)
		if err != nil {
			return b, false, 0, err
		}
		b.trust(next.ca)
		b.next, b.trustedSince, b.forceRenewal = next, time.Time{}, false
		return b, true, 0, nil

	case b.next == nil:
		return b, changed, r.untilRenewal(b.serving, now), nil

	case !published:
		return b, changed, 0, nil // the configuration reconciler calls again after it has written the configurations

	case b.trustedSince.IsZero():
		b.trustedSince = now
		return b, true, r.propagationDelay, nil

	case now.Before(b.trustedSince.Add(r.propagationDelay)):
		return b, changed, b.trustedSince.Add(r.propagationDelay).Sub(now), nil

	default:
		b.serving, b.next, b.trustedSince = b.next, nil, time.Time{}
		return b, true, r.untilRenewal(b.serving, now), nil
	}
}

// untilRenewal returns the time until a certificate must be renewed.
func (r rotation) untilRenewal(p *keyPair, now time.Time) time.Duration {
	return p.leaf.NotAfter.Add(-r.renewBefore).Sub(now)
}

func (b *certBundle) trust(ca *x509.Certificate) {
	if !slices.ContainsFunc(b.trusted, ca.Equal) {
		b.trusted = append(b.trusted, ca)
	}
}

// prune removes expired CAs, adds missing CAs of the valid certificates, and reports whether the CAs have changed.
func (b *certBundle) prune(now time.Time) bool {
	before := len(b.trusted)
	b.trusted = slices.DeleteFunc(b.trusted, func(ca *x509.Certificate) bool { return now.After(ca.NotAfter) })
	removed := len(b.trusted) != before
	remaining := len(b.trusted)
	for _, p := range []*keyPair{b.serving, b.next} {
		if p != nil && p.isValid(now) {
			b.trust(p.ca)
		}
	}
	return removed || len(b.trusted) != remaining
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}
