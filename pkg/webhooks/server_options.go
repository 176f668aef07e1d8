package webhooks

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// DefaultDrain is how long a server in a pod, or behind a Service, goes on after it was told to end.
const DefaultDrain = 5 * time.Second

// Options are the choices for a [Server]. The zero value serves the hooks with certificates from files, and leaves
// webhook configurations to somebody else.
type Options struct {
	// Name of the two webhook configurations, and the end of the names in them; best a domain of one's own, such as
	// "databases.example.com". Needed for all but Unmanaged.
	//
	// kopf: settings.admission.managed.
	Name string
	// Configurations tells who writes the webhook configurations. Default: Unmanaged, that is somebody else.
	Configurations Configurations
	// Exit tells what becomes of managed configurations when the operator ends. Default: KeepOnExit.
	Exit Exit
	// Annotations of managed configurations, such as cert-manager's "cert-manager.io/inject-ca-from".
	Annotations map[string]string
	// FieldOwner owns what is written in the configurations. Default: "kopf-webhooks". Two servers with
	// the same Name need two of them; within one manager that is a mistake which [Server.SetupWithManager] tells.
	FieldOwner string

	// ClientConfig is where the API server finds the operator: a Service, whose namespace is by default the
	// operator's own and whose port is 443; or a URL, for an operator outside of the cluster or a tunnel
	// to it. The path of either comes before those of the hooks. A CABundle is needed only where the
	// certificates have none of their own.
	//
	// kopf: what settings.admission.server yields.
	ClientConfig admissionregistrationv1.WebhookClientConfig
	// Certificates are those of the server: [Files] (default) or [SelfManaged].
	Certificates Certificates

	// Namespace is the operator's own, which has the Secret of certificates that are SelfManaged. Default: that of its pod.
	Namespace string
	// Namespaces are the only ones that the operator serves; hooks may name others. Default: all but
	// kube-system and the operator's own. An operator outside of the cluster, behind a URL, has none of its own there: then Namespace is served, too.
	Namespaces []string

	// Drain is for how long requests are still answered after the operator was told to end and counts as not
	// ready, until nobody sends any more. It has to be shorter than the manager's GracefulShutdownTimeout, which is also
	// for what ends afterwards: up to 20 seconds. Default: none if ClientConfig has a URL; else DefaultDrain with
	// a Service, and in a pod, as configurations that somebody else writes name one. Outside of pods, none. Negative: none.
	Drain time.Duration

	home string // the namespace of the operator's pods, if it has any
}

// Configurations tells who writes the webhook configurations.
type Configurations int

const (
	// Unmanaged leaves all of them to somebody else.
	Unmanaged Configurations = iota
	// Managed has the server write them, one entry for each hook; what others have put there stays.
	Managed
	// Injected leaves them to somebody else, for example with what [WriteManifests] prints; the server keeps the
	// caBundle of its hooks right.
	Injected
)

// Exit tells what becomes of managed configurations at the end.
type Exit int

const (
	// KeepOnExit leaves them where they are: with the policy Fail, nothing passes unseen while the operator is down.
	KeepOnExit Exit = iota
	// RemoveOnExit removes the hooks that are not [Persistent], and empty configurations: for an operator that has one
	// replica, or is being developed. kopf's only way.
	RemoveOnExit
)

const (
	kubeSystem       = "kube-system"
	defaultOwner     = "kopf-webhooks"
	podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	maxDrain         = 20 * time.Second
)

// withDefaults fills in what was left out.
func (o Options) withDefaults() Options { return o.withDefaultsOf(podNamespaceFile) }

// withDefaultsOf is told of the file that a pod has.
func (o Options) withDefaultsOf(namespaceFile string) Options {
	text, err := os.ReadFile(namespaceFile)
	inPod := err == nil
	if o.Namespace == "" {
		o.Namespace = strings.TrimSpace(string(text))
	}
	o.home = o.Namespace
	if o.ClientConfig.URL != nil {
		o.home = strings.TrimSpace(string(text))
	}
	if o.FieldOwner == "" {
		o.FieldOwner = defaultOwner
	}
	switch c := o.Certificates.(type) {
	case nil:
		o.Certificates = Files{}
	case *Files:
		if c != nil {
			o.Certificates = *c
		}
	case *SelfManaged:
		if c != nil {
			o.Certificates = *c
		}
	}
	if s := o.ClientConfig.Service; s != nil {
		s = s.DeepCopy()
		if s.Namespace == "" {
			s.Namespace = o.Namespace
		}
		if s.Port == nil {
			s.Port = new(int32(443))
		}
		o.ClientConfig.Service = s
	}
	if o.Drain == 0 && o.ClientConfig.URL == nil && (o.ClientConfig.Service != nil || inPod) {
		o.Drain = DefaultDrain
	}
	o.Drain = max(o.Drain, 0)
	return o
}

// check expects that the defaults are filled in.
func (o Options) check() error {
	var c problems
	if o.Configurations < Unmanaged || o.Configurations > Injected {
		c.addf("Configurations (%d) is no choice: use Unmanaged, Managed or Injected", o.Configurations)
	}
	if o.Exit < KeepOnExit || o.Exit > RemoveOnExit {
		c.addf("Exit (%d) is no choice: use KeepOnExit or RemoveOnExit", o.Exit)
	}
	if o.Exit == RemoveOnExit && o.Configurations != Managed {
		c.addf("Exit is RemoveOnExit, but there is nothing to remove: set Configurations to Managed, or leave Exit out")
	}
	if o.Drain > maxDrain {
		c.addf("Drain is %s: use up to %s, as managers wait 30s for everything by default, and handlers end after the drain", o.Drain, maxDrain)
	}
	for _, name := range append([]string{o.Namespace}, o.Namespaces...) {
		if err := validation.DNSLabel(name); name != "" && err != nil {
			c.addf("%q is no namespace: %w", name, err)
		}
	}
	c.addErr(o.checkClientConfig())
	if o.Configurations != Unmanaged {
		c.addErr(o.checkName())
		if o.ClientConfig.URL == nil && o.ClientConfig.Service == nil {
			c.addf("ClientConfig is empty: tell the API server where to find the operator, by Service or URL")
		}
	}
	switch o.Certificates.(type) {
	case Files, SelfManaged:
		c.addErr(o.Certificates.check(o))
	default:
		c.addf("Certificates are a %T: use Files{} or SelfManaged{}", o.Certificates)
	}
	return errors.Join(c...)
}

func (o Options) checkName() error {
	if o.Name == "" {
		return errors.New("the Name is empty: name the webhook configurations, best by a domain of your own")
	}
	if err := validation.Subdomain(o.Name); err != nil {
		return fmt.Errorf("the Name %q cannot be that of webhook configurations: %w", o.Name, err)
	}
	return nil
}

func (o Options) checkClientConfig() error {
	c := o.ClientConfig
	switch {
	case c.URL != nil && c.Service != nil:
		return errors.New("ClientConfig has both a URL and a Service: leave one out")
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return fmt.Errorf("ClientConfig.URL: %w", err)
		}
		if u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("ClientConfig.URL is %q: the API server takes https://host:port/path, and nothing else", *c.URL)
		}
	case c.Service != nil:
		if c.Service.Name == "" {
			return errors.New("ClientConfig.Service has no Name: name the Service before the operator")
		}
		if c.Service.Namespace == "" {
			return errors.New("ClientConfig.Service has no Namespace, and the operator does not run in a pod: name it there, or in Options.Namespace")
		}
	}
	return nil
}

// prefix is the path before those of the hooks, without a slash at the end.
func (o Options) prefix() string {
	switch c := o.ClientConfig; {
	case c.URL != nil:
		if u, err := url.Parse(*c.URL); err == nil {
			return strings.TrimRight(u.EscapedPath(), "/")
		}
	case c.Service != nil && c.Service.Path != nil && strings.Trim(*c.Service.Path, "/") != "":
		return "/" + strings.Trim(*c.Service.Path, "/")
	}
	return ""
}

// clientConfig is how the API server calls one hook.
func (o Options) clientConfig(path string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	out := *o.ClientConfig.DeepCopy()
	if out.CABundle == nil {
		out.CABundle = bundle
	}
	switch {
	case out.URL != nil:
		out.URL = new(strings.TrimRight(*out.URL, "/") + "/" + path)
	case out.Service != nil:
		out.Service.Path = new(o.prefix() + "/" + path)
	}
	return out
}

// problems collects mistakes.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p *problems) addErr(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}
