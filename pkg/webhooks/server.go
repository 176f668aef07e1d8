package webhooks

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A Server serves hooks of any kinds on the manager's webhook server, and looks after their configurations and
// certificates as [Options] say. Make it with [New], give it hooks, and set it up once.
type Server struct {
	mgr     manager.Manager
	options Options
	hooks   []Hook
	leaving atomic.Bool
	started func(*http.Request) error
}

// New makes a server. It starts nothing, and never fails: [Server.Validate] and [Server.SetupWithManager]
// tell mistakes.
func New(mgr manager.Manager, options Options) *Server {
	return &Server{mgr: mgr, options: options.withDefaults()}
}

// Add adds hooks, before the server is set up.
func (s *Server) Add(hooks ...Hook) *Server {
	s.hooks = append(s.hooks, hooks...)
	return s
}

// Validate tells all mistakes in the options and the hooks, joined.
func (s *Server) Validate() error {
	_, err := prepare(s.mgr.GetScheme(), s.options, s.hooks)
	return err
}

// SetupWithManager registers the hooks with the manager's webhook server, has the manager run what looks
// after configurations and certificates, and adds the readiness check "webhooks". It is for before the manager
// is started. Without hooks, nothing is served, but entries of an earlier version of the operator are removed if
// the configurations are Managed.
func (s *Server) SetupWithManager() (err error) {
	all, err := prepare(s.mgr.GetScheme(), s.options, s.hooks)
	if err != nil {
		return err
	}
	if len(all) == 0 && s.options.Configurations != Managed {
		return nil
	}
	release, err := s.claim(len(all) > 0)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	direct, err := client.New(s.mgr.GetConfig(), client.Options{
		HTTPClient: s.mgr.GetHTTPClient(), Scheme: clientgoscheme.Scheme, Mapper: s.mgr.GetRESTMapper(),
	})
	if err != nil {
		return err
	}
	steward := &steward{
		mgr: s.mgr, options: s.options, hooks: all, wake: make(chan struct{}, 1),
		serving: func() bool { return s.Readyz(nil) == nil },
		keeper:  &configurations{options: s.options, client: direct, now: time.Now, last: map[hookKind]application{}, missing: map[hookKind][]string{}},
	}
	custodian := &custodian{mgr: s.mgr, leaving: func() { s.leaving.Store(true) }, release: release}
	switch c := s.options.Certificates.(type) {
	case Files:
		steward.authority = &caFile{path: c.CAFile, now: time.Now}
	case SelfManaged:
		if len(all) == 0 {
			steward.authority = &caFile{} // nothing is served: there is nothing to be trusted
			break
		}
		ring := c.keyring(s.options, direct, steward.nudge)
		steward.authority, custodian.keyring = ring, ring
		if err := useCertificates(s.mgr.GetWebhookServer(), ring); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		if err := s.register(all); err != nil {
			return err
		}
		custodian.drain = s.options.Drain
	}
	if s.options.Configurations != Unmanaged {
		if err := s.mgr.Add(steward); err != nil {
			return err
		}
	}
	if err := s.mgr.Add(custodian); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	return s.mgr.AddReadyzCheck("webhooks", s.Readyz)
}

// Readyz fails until the webhook server answers, and when it is about to stop. It is a healthz.Checker.
func (s *Server) Readyz(r *http.Request) error {
	if s.leaving.Load() {
		return errors.New("the operator is about to end")
	}
	if s.started == nil {
		return nil // nothing is served
	}
	return s.started(r)
}

func (s *Server) register(all []named) (err error) {
	server := s.mgr.GetWebhookServer()
	s.started = server.StartedChecker()
	defer func() {
		// The manager's server panics if a path is taken.
		if value := recover(); value != nil {
			err = fmt.Errorf("webhooks: %v: rename the handler, or put all hooks into one server", value)
		}
	}()
	logger := s.mgr.GetLogger().WithName("admission")
	decoder := admission.NewDecoder(s.mgr.GetScheme())
	for _, n := range all {
		e, err := newEndpoint(n.Hook, n.gvk, decoder, s.mgr.GetClient())
		if err != nil {
			return err
		}
		server.Register(s.options.prefix()+"/"+n.path, handlerFor(e, logger, patience, s.leaving.Load))
	}
	return nil
}

// useCertificates has the manager's webhook server take its certificates from the keyring.
func useCertificates(server webhook.Server, ring *keyring) error {
	own, ok := server.(*webhook.DefaultServer)
	if !ok {
		return fmt.Errorf("webhooks: the certificates are SelfManaged, but the manager's webhook server is a %T: "+
			"give the manager one of webhook.NewServer", server)
	}
	own.Options.TLSOpts = append(slices.Clone(own.Options.TLSOpts), func(c *tls.Config) { c.GetCertificate = ring.GetCertificate })
	return nil
}

// keyring for a server.
func (c SelfManaged) keyring(o Options, direct client.Client, notify func()) *keyring {
	c = c.withDefaults()
	return &keyring{
		rotation: rotation{lifetime: c.Lifetime, before: c.RenewBefore, settle: c.Settle, hosts: c.hosts(o), issue: issue},
		client:   direct, now: time.Now, notify: notify,
		key: client.ObjectKey{Namespace: o.Namespace, Name: c.SecretName},
	}
}
