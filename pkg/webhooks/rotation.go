package webhooks

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// A pair is a certificate with its CA and its key.
type pair struct {
	cert, key []byte // PEM
	tls       *tls.Certificate
	leaf, ca  *x509.Certificate
}

func parsePair(cert, key []byte) (*pair, error) {
	parsed, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	if len(parsed.Certificate) < 2 {
		return nil, errors.New("the certificate comes without its CA")
	}
	ca, err := x509.ParseCertificate(parsed.Certificate[1])
	if err != nil {
		return nil, err
	}
	return &pair{cert: cert, key: key, tls: &parsed, leaf: parsed.Leaf, ca: ca}, nil
}

func (p *pair) valid(now time.Time) bool { return now.Before(p.leaf.NotAfter) }

func (p *pair) covers(hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return p.leaf.VerifyHostname(host) != nil })
}

// hosts are those that it was issued for.
func (p *pair) hosts() []string {
	hosts := slices.Clone(p.leaf.DNSNames)
	for _, ip := range p.leaf.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// A keychain is what the replicas share.
type keychain struct {
	serving *pair               // what all replicas use
	next    *pair               // what they will use; nil if the other one is good for long
	trusted []*x509.Certificate // the CAs that the API server has to trust
	since   time.Time           // when next was seen to be trusted; zero if it was not yet
	renew   bool                // before the time, as what was stored is lost
	version string              // of the Secret
}

// older reports whether it was stored before the other: a watch tells late of what this replica has overwritten itself.
func (k keychain) older(other keychain) bool {
	order, err := resourceversion.CompareResourceVersion(k.version, other.version)
	return err == nil && order < 0
}

// restore makes it what is known of it from before.
func (k *keychain) restore(known keychain) {
	k.serving, k.renew = known.serving, true
	for _, ca := range known.trusted {
		k.trust(ca)
	}
}

// A rotation is how keychains are kept.
type rotation struct {
	lifetime, before, settle time.Duration
	hosts                    []string
	issue                    func(hosts []string, lifetime time.Duration) (*pair, error)
}

// step is what is to be done to a keychain now: it returns what becomes of it, whether that is a change, and
// when to look again. Confirmed tells that the API server has been told of all that is trusted. It
// takes one step at a time, as each has to be stored before the next.
func (r rotation) step(k keychain, now time.Time, confirmed bool) (keychain, bool, time.Duration, error) {
	k.trusted = slices.Clone(k.trusted)
	pruned := k.prune(now)
	if k.next != nil && (!k.next.valid(now) || !k.next.covers(r.hosts)) {
		k.next, k.since = nil, time.Time{}
		pruned = true
	}
	switch {
	case k.serving == nil || !k.serving.valid(now):
		// Nobody can be served: there is nothing to wait for.
		fresh := k.next
		if fresh == nil {
			var err error
			if fresh, err = r.issue(r.hosts, r.lifetime); err != nil {
				return k, false, 0, err
			}
		}
		k.trust(fresh.ca)
		k.serving, k.next, k.since = fresh, nil, time.Time{}
		return k, true, 0, nil

	case k.next == nil && (k.renew || r.untilRenewal(k.serving, now) <= 0 || !k.serving.covers(r.hosts)):
		hosts := r.hosts
		if !k.serving.covers(r.hosts) {
			// Replicas of another version may need the other names: they shall not take turns.
			hosts = union(r.hosts, k.serving.hosts())
		}
		fresh, err := r.issue(hosts, r.lifetime)
		if err != nil {
			return k, false, 0, err
		}
		k.trust(fresh.ca)
		k.next, k.since, k.renew = fresh, time.Time{}, false
		return k, true, 0, nil

	case k.next == nil:
		return k, pruned, r.untilRenewal(k.serving, now), nil

	case !confirmed:
		return k, pruned, 0, nil // whoever confirms comes back

	case k.since.IsZero():
		k.since = now
		return k, true, r.settle, nil

	case now.Before(k.since.Add(r.settle)):
		return k, pruned, k.since.Add(r.settle).Sub(now), nil

	default:
		k.serving, k.next, k.since = k.next, nil, time.Time{}
		return k, true, r.untilRenewal(k.serving, now), nil
	}
}

// untilRenewal is the time until a certificate is to be renewed.
func (r rotation) untilRenewal(p *pair, now time.Time) time.Duration {
	return p.leaf.NotAfter.Add(-r.before).Sub(now)
}

func (k *keychain) trust(ca *x509.Certificate) {
	if !slices.ContainsFunc(k.trusted, ca.Equal) {
		k.trusted = append(k.trusted, ca)
	}
}

// prune takes away what has expired. What is in use is trusted in any case.
func (k *keychain) prune(now time.Time) bool {
	before := len(k.trusted)
	k.trusted = slices.DeleteFunc(k.trusted, func(ca *x509.Certificate) bool { return now.After(ca.NotAfter) })
	pruned := len(k.trusted) != before
	after := len(k.trusted)
	for _, p := range []*pair{k.serving, k.next} {
		if p != nil && p.valid(now) {
			k.trust(p.ca)
		}
	}
	return pruned || len(k.trusted) != after
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
