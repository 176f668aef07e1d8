package webhooks

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// Certificates are where the server's certificate comes from, and whom the API server has to trust:
// [Files] or [SelfManaged].
type Certificates interface {
	check(o Options) error
}

// Files are certificates that somebody else keeps, such as cert-manager: the manager's webhook server reads its
// CertDir, CertName and KeyName, and sees when they change.
type Files struct {
	// CAFile is a file with the CAs that the API server has to trust, often "ca.crt" beside the certificate. It is
	// read again every 10 seconds. CAs that go from it are trusted for 5 more minutes, by the leader that has seen them there, as the
	// files of replicas change at different times. Default: the caBundle is left to others (cert-manager's injector), or to
	// the roots that the API server trusts anyway, as for the public URL of a tunnel.
	CAFile string
}

func (f Files) check(o Options) error {
	if f.CAFile != "" && o.Configurations == Unmanaged {
		return errors.New("Files.CAFile is for configurations that are Managed or Injected: set Configurations, or leave it out")
	}
	if f.CAFile == "" && o.Configurations == Injected && len(o.ClientConfig.CABundle) == 0 {
		return errors.New("Configurations are Injected, but there is nothing to inject: name the CAs in Files.CAFile")
	}
	return nil
}

// Defaults of [SelfManaged].
const (
	DefaultLifetime = 365 * 24 * time.Hour
	DefaultSettle   = time.Minute
)

// maxTrusted are the CAs in a bundle, which stands in the Secret and in each entry.
const maxTrusted = 50

// SelfManaged are certificates that the operator makes for itself, and keeps in a Secret for all of its replicas.
// Each has a CA of its own, whose key is thrown away at once. They are renewed long before they end: first the API server is told to trust the new CA, too; after Settle, all replicas use the new
// certificate; the old CA is trusted until it has expired, so a replica that is late is trusted as well.
type SelfManaged struct {
	// SecretName is the Secret in the operator's namespace. Default: "webhook-certificates".
	SecretName string
	// Hosts are more names and addresses for the certificate; it has those of the Service or the URL anyway.
	Hosts []string
	// Lifetime of a certificate. Default: [DefaultLifetime].
	Lifetime time.Duration
	// RenewBefore is how long before its end a certificate is renewed. As old CAs are trusted until they have expired, each renewal within a
	// Lifetime is one more in the bundle; up to fifty are allowed. Default: a third of the Lifetime.
	RenewBefore time.Duration
	// Settle is how long a new CA stands in the configurations before its certificate is used: all API servers must
	// have seen it by then. Less than RenewBefore. Default: [DefaultSettle], or a third of
	// RenewBefore if that is shorter.
	Settle time.Duration
}

func (c SelfManaged) withDefaults() SelfManaged {
	if c.SecretName == "" {
		c.SecretName = "webhook-certificates"
	}
	if c.Lifetime == 0 {
		c.Lifetime = DefaultLifetime
	}
	if c.RenewBefore == 0 {
		c.RenewBefore = c.Lifetime / 3
	}
	if c.Settle == 0 {
		c.Settle = min(DefaultSettle, c.RenewBefore/3)
	}
	return c
}

func (c SelfManaged) check(o Options) error {
	c = c.withDefaults()
	var p problems
	if o.Configurations == Unmanaged {
		p.addf("the certificates are SelfManaged, but nobody tells the API server whom to trust: set Configurations to Managed or Injected")
	}
	if o.Namespace == "" {
		p.addf("the certificates are SelfManaged, and the operator does not run in a pod: name the namespace of their Secret in Namespace")
	}
	if len(o.ClientConfig.CABundle) > 0 {
		p.addf("ClientConfig.CABundle and SelfManaged certificates exclude each other: leave one out")
	}
	if c.Lifetime < 0 {
		p.addf("SelfManaged.Lifetime is negative (%s): use a duration of more than zero", c.Lifetime)
	}
	if c.Lifetime > 0 && (c.RenewBefore < 0 || c.RenewBefore > c.Lifetime-c.Lifetime/maxTrusted) {
		p.addf("SelfManaged.RenewBefore is %s, of a Lifetime of %s: use zero or more, and leave at least a fiftieth of the Lifetime", c.RenewBefore, c.Lifetime)
	}
	if c.Settle < 0 || c.RenewBefore > 0 && c.Settle >= c.RenewBefore {
		p.addf("SelfManaged.Settle is %s: use zero or more, and less than RenewBefore (%s)", c.Settle, c.RenewBefore)
	}
	for _, host := range c.hosts(o) {
		if net.ParseIP(host) == nil && validation.Subdomain(strings.ToLower(host)) != nil {
			p.addf("no certificate can be made for the host %q: use names without wildcards, and addresses", host)
		}
	}
	return errors.Join(p...)
}

// hosts are what the API server calls the operator.
func (c SelfManaged) hosts(o Options) []string {
	var hosts []string
	switch client := o.ClientConfig; {
	case client.Service != nil:
		name, namespace := client.Service.Name, client.Service.Namespace
		hosts = []string{name + "." + namespace + ".svc", name + "." + namespace, name + "." + namespace + ".svc.cluster.local"}
	case client.URL != nil:
		if u, err := url.Parse(*client.URL); err == nil {
			hosts = []string{u.Hostname()}
		}
	}
	for _, host := range c.Hosts {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// issue makes a certificate with a CA of its own.
func issue(hosts []string, lifetime time.Duration) (*pair, error) {
	o := certutil.SelfSignedCertKeyOptions{
		Host:   hosts[0],
		MaxAge: lifetime + time.Hour, // it begins an hour ago, for clocks that are late
	}
	for _, host := range hosts[1:] {
		if ip := net.ParseIP(host); ip != nil {
			o.AlternateIPs = append(o.AlternateIPs, ip)
		} else {
			o.AlternateDNS = append(o.AlternateDNS, host)
		}
	}
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(o)
	if err != nil {
		return nil, fmt.Errorf("no certificate could be made for %q: %w", hosts, err)
	}
	return parsePair(cert, key)
}
