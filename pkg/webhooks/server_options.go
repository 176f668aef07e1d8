package webhooks

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// DefaultDrain is the default of Options.Drain in a pod or with a Service.
const DefaultDrain = 5 * time.Second

// Options configures a [Server]. The zero value serves the hooks with certificates from files, and doesn't write webhook configurations.
type Options struct {
	// Name is the name of the two webhook configurations, and what the names of their entries end with. Use a domain that you own, such as
	// "databases.example.com". Required unless Configurations is Unmanaged.
	//
	// Equivalent in kopf: settings.admission.managed.
	Name string
	// Configurations selects who writes the webhook configurations. Default: Unmanaged.
	Configurations Configurations
	// Exit says whether managed configurations are removed at shutdown. Default: KeepOnExit.
	Exit Exit
	// Annotations are added to managed configurations, such as cert-manager's "cert-manager.io/inject-ca-from".
	Annotations map[string]string
	// FieldOwner is the field owner of the entries that the server writes. Default: "kopf-webhooks". Two servers with the same Name need
	// different owners. [Server.SetupWithManager] returns an error if two servers of one manager share both.
	FieldOwner string

	// ClientConfig is where API servers reach the operator: a Service, or a URL for an operator or a tunnel outside of the cluster. The
	// namespace of the Service defaults to the operator's own namespace, and the port to 443. A path in ClientConfig is a prefix of the
	// hooks' paths. CABundle is only needed if Certificates provides no CA.
	//
	// Equivalent in kopf: the value of settings.admission.server.
	ClientConfig admissionregistrationv1.WebhookClientConfig
	// Certificates selects where the certificates come from: [Files] (default) or [SelfManaged].
	Certificates Certificates

	// Namespace is the operator's own namespace, which contains the Secret of SelfManaged certificates. Default: the namespace of its pod.
	Namespace string
	// Namespaces limits all hooks to objects in these namespaces, unless a hook has [Namespaces] or [EveryNamespace]. Default: all
	// namespaces except kube-system and the namespace of the operator's pods. With a URL, only kube-system is excluded if the operator runs
	// outside of a pod, or if it connects to a different cluster than its pod's.
	Namespaces []string

	// Drain is how long the server still answers requests once shutdown has started and the readiness check fails. It must be shorter than
	// the manager's GracefulShutdownTimeout, which also includes the shutdown of all other runnables. At most 20 seconds are allowed.
	// Default: zero if ClientConfig has a URL; otherwise [DefaultDrain] with a Service or in a pod, and zero elsewhere. A negative value
	// means zero.
	Drain time.Duration

	podNamespace string // the namespace of the operator's pods; empty if unknown
}

// Configurations selects who writes the webhook configurations.
type Configurations int

const (
	// Unmanaged means that another program writes the configurations.
	Unmanaged Configurations = iota
	// Managed means that the server writes one entry for each hook. It doesn't change entries of other field owners.
	Managed
	// Injected means that another program writes the configurations, for example from the output of [WriteManifests], and that the server
	// only updates the caBundle of its hooks.
	Injected
)

// Exit says whether managed configurations are removed at shutdown.
type Exit int

const (
	// KeepOnExit keeps the configurations. With the failure policy Fail, objects then can't bypass the handlers while the operator is down.
	KeepOnExit Exit = iota
	// RemoveOnExit removes the entries of all hooks that aren't [Persistent], and deletes configurations without remaining entries. Use it
	// for an operator with one replica or in development. kopf always removes these entries.
	RemoveOnExit
)

const (
	kubeSystem        = "kube-system"
	defaultFieldOwner = "kopf-webhooks"
	podNamespaceFile  = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
	maxDrain          = 20 * time.Second
)

func (o Options) withDefaults() Options { return o.withDefaultsFrom(podNamespaceFile) }

// withDefaultsFrom reads the pod's namespace from a file, which exists only in pods.
func (o Options) withDefaultsFrom(namespaceFile string) Options {
	text, err := os.ReadFile(namespaceFile)
	inPod := err == nil
	if o.Namespace == "" {
		o.Namespace = strings.TrimSpace(string(text))
	}
	o.podNamespace = o.Namespace
	if o.ClientConfig.URL != nil {
		o.podNamespace = strings.TrimSpace(string(text))
	}
	if o.FieldOwner == "" {
		o.FieldOwner = defaultFieldOwner
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

// forConnection forgets the pod's namespace if API servers call the operator at a URL and belong to a different cluster than its pod. In
// that cluster, the namespace doesn't contain the operator's pods.
func (o Options) forConnection(config *rest.Config) Options {
	if o.ClientConfig.URL != nil && !connectsToOwnCluster(config) {
		o.podNamespace = ""
	}
	return o
}

// connectsToOwnCluster reports whether the address is one that pods use to reach the API server of their own cluster.
func connectsToOwnCluster(config *rest.Config) bool {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return false
	}
	host := address.Hostname()
	return host == os.Getenv("KUBERNETES_SERVICE_HOST") || host == "kubernetes.default" || host == "kubernetes.default.svc" ||
		strings.HasPrefix(host, "kubernetes.default.svc.")
}

// check returns all errors in the options, which must already have their defaults.
func (o Options) check() error {
	var c errorList
	if o.Configurations < Unmanaged || o.Configurations > Injected {
		c.addf("Configurations must be Unmanaged, Managed or Injected, got %d", o.Configurations)
	}
	if o.Exit < KeepOnExit || o.Exit > RemoveOnExit {
		c.addf("Exit must be KeepOnExit or RemoveOnExit, got %d", o.Exit)
	}
	if o.Exit == RemoveOnExit && o.Configurations != Managed {
		c.addf("RemoveOnExit needs managed configurations: set Configurations to Managed or remove Exit")
	}
	if o.Drain > maxDrain {
		c.addf("Drain must be at most %s, because managers stop after 30s by default, got %s", maxDrain, o.Drain)
	}
	for _, name := range append([]string{o.Namespace}, o.Namespaces...) {
		if err := validation.DNSLabel(name); name != "" && err != nil {
			c.addf("the namespace %q is invalid: %w", name, err)
		}
	}
	c.addErr(o.checkClientConfig())
	if o.Configurations != Unmanaged {
		c.addErr(o.checkName())
		if o.ClientConfig.URL == nil && o.ClientConfig.Service == nil {
			c.addf("ClientConfig is empty: set Service or URL, so that API servers can call the operator")
		}
	}
	switch o.Certificates.(type) {
	case Files, SelfManaged:
		c.addErr(o.Certificates.check(o))
	default:
		c.addf("Certificates must be Files or SelfManaged, got %T", o.Certificates)
	}
	return errors.Join(c...)
}

func (o Options) checkName() error {
	if o.Name == "" {
		return errors.New("the Name of the webhook configurations is empty: set it, preferably to a domain that you own")
	}
	if err := validation.Subdomain(o.Name); err != nil {
		return fmt.Errorf("the Name %q is invalid for webhook configurations: %w", o.Name, err)
	}
	return nil
}

func (o Options) checkClientConfig() error {
	c := o.ClientConfig
	switch {
	case c.URL != nil && c.Service != nil:
		return errors.New("ClientConfig has both a URL and a Service: remove one of them")
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil {
			return fmt.Errorf("ClientConfig.URL: %w", err)
		}
		if u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return fmt.Errorf("ClientConfig.URL must have the form https://host:port/path, got %q", *c.URL)
		}
	case c.Service != nil:
		if c.Service.Name == "" {
			return errors.New("ClientConfig.Service has no Name: set the name of the operator's Service")
		}
		if c.Service.Namespace == "" {
			return errors.New("ClientConfig.Service has no Namespace, and the operator does not run in a pod: set Namespace in the Service or in Options")
		}
	}
	return nil
}

// pathPrefix returns what the hooks' paths start with, without a trailing slash.
func (o Options) pathPrefix() string {
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

// clientConfig returns the address of one hook, with its CA bundle.
func (o Options) clientConfig(path string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	out := *o.ClientConfig.DeepCopy()
	if out.CABundle == nil {
		out.CABundle = bundle
	}
	switch {
	case out.URL != nil:
		out.URL = new(strings.TrimRight(*out.URL, "/") + "/" + path)
	case out.Service != nil:
		out.Service.Path = new(o.pathPrefix() + "/" + path)
	}
	return out
}

// errorList collects the errors of a check.
type errorList []error

func (p *errorList) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p *errorList) addErr(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}
