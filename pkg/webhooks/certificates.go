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

// Certificates selects where the server's certificate and the CAs that API servers must trust come from: [Files] or [SelfManaged].
type Certificates interface {
	check(o Options) error
}

// Files selects certificates from files that another program, such as cert-manager, writes. The manager's webhook server reads the files of
// its options CertDir, CertName and KeyName, and reloads them when they change.
type Files struct {
	// CAFile is a PEM file with the CAs that API servers must trust, often "ca.crt" in the folder of the certificate. The leader reads it
	// every 10 seconds. CAs that are removed from it stay trusted for 5 more minutes, because mounted files change at different times in
	// each replica. Default: the server writes only the CABundle of ClientConfig. Without a CABundle, cert-manager's injector must write
	// it, or API servers use their system roots, for example for a tunnel with a public URL.
	CAFile string
}

func (f Files) check(o Options) error {
	if f.CAFile != "" && o.Configurations == Unmanaged {
		return errors.New("the option Files.CAFile needs Managed or Injected configurations: set Configurations or remove CAFile")
	}
	if f.CAFile == "" && o.Configurations == Injected && len(o.ClientConfig.CABundle) == 0 {
		return errors.New("injected configurations need CAs: set Files.CAFile")
	}
	return nil
}

// Defaults of [SelfManaged].
const (
	DefaultSecretName       = "webhook-certificates"
	DefaultLifetime         = 365 * 24 * time.Hour
	DefaultPropagationDelay = time.Minute
)

// maxTrustedCAs limits the renewals within a Lifetime, because each one adds a CA to the bundle in the Secret and in each entry.
const maxTrustedCAs = 50

// SelfManaged selects certificates that the operator creates and stores in a Secret for all of its replicas. Each certificate has its own
// CA, whose private key is discarded immediately.
//
// The leader renews certificates before they expire, see RenewBefore. It first adds the new CA to the configurations. After
// PropagationDelay, all replicas switch to the new certificate. The old CA stays trusted until it expires, because replicas may still use
// the old certificate.
type SelfManaged struct {
	// SecretName is the name of the Secret in the operator's namespace. Default: [DefaultSecretName].
	SecretName string
	// Hosts are additional names and addresses for the certificate. It always covers the names of the Service or the host of the URL.
	Hosts []string
	// Lifetime is the validity of a certificate. Default: [DefaultLifetime].
	Lifetime time.Duration
	// RenewBefore is how long before its expiry a certificate is renewed. Each renewal within a Lifetime adds a CA to the bundle, because
	// old CAs stay trusted until they expire. So at most 50 renewals within a Lifetime are allowed. Default: a third of the Lifetime.
	RenewBefore time.Duration
	// PropagationDelay is how long a new CA must be in the configurations before its certificate is used. All API servers must receive the
	// CA in this time. It must be less than RenewBefore. Default: [DefaultPropagationDelay] or a third of RenewBefore, whichever is
	// smaller.
	PropagationDelay time.Duration
}

func (c SelfManaged) withDefaults() SelfManaged {
	if c.SecretName == "" {
		c.SecretName = DefaultSecretName
	}
	if c.Lifetime == 0 {
		c.Lifetime = DefaultLifetime
	}
	if c.RenewBefore == 0 {
		c.RenewBefore = c.Lifetime / 3
	}
	if c.PropagationDelay == 0 {
		c.PropagationDelay = min(DefaultPropagationDelay, c.RenewBefore/3)
	}
	return c
}

func (c SelfManaged) check(o Options) error {
	c = c.withDefaults()
	var p errorList
	if o.Configurations == Unmanaged {
		p.addf("SelfManaged certificates need Managed or Injected configurations: set Configurations")
	}
	if o.Namespace == "" {
		p.addf("SelfManaged certificates need a namespace for their Secret, and the operator does not run in a pod: set Namespace")
	}
	if len(o.ClientConfig.CABundle) > 0 {
		p.addf("ClientConfig.CABundle and SelfManaged certificates are mutually exclusive: remove one of them")
	}
	if c.Lifetime < 0 {
		p.addf("SelfManaged.Lifetime must be positive, got %s", c.Lifetime)
	}
	if c.Lifetime > 0 && (c.RenewBefore < 0 || c.RenewBefore > c.Lifetime-c.Lifetime/maxTrustedCAs) {
		p.addf("SelfManaged.RenewBefore must not be negative and must leave at least a fiftieth of the Lifetime (%s), got %s", c.Lifetime, c.RenewBefore)
	}
	if c.PropagationDelay < 0 || c.RenewBefore > 0 && c.PropagationDelay >= c.RenewBefore {
		p.addf("SelfManaged.PropagationDelay must not be negative and must be less than RenewBefore (%s), got %s", c.RenewBefore, c.PropagationDelay)
	}
	for _, host := range c.hosts(o) {
		if net.ParseIP(host) == nil && validation.Subdomain(strings.ToLower(host)) != nil {
			p.addf("the host %q is invalid in a certificate: use an address or a name without wildcards", host)
		}
	}
	return errors.Join(p...)
}

// hosts returns the names and addresses at which API servers reach the operator.
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

// issueKeyPair creates a certificate with its own CA.
func issueKeyPair(hosts []string, lifetime time.Duration) (*keyPair, error) {
	o := certutil.SelfSignedCertKeyOptions{
		Host:   hosts[0],
		MaxAge: lifetime + time.Hour, // the validity starts one hour in the past, because clocks differ
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
		return nil, fmt.Errorf("creating a certificate for %q: %w", hosts, err)
	}
	return parseKeyPair(cert, key)
}
