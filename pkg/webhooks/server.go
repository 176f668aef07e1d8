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

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

// Server serves hooks of any kinds on the manager's webhook server, and maintains configurations and certificates according to its
// [Options]. Create it with [New], add hooks, and set it up once.
type Server struct {
	mgr           manager.Manager
	options       Options
	hooks         []Hook
	draining      atomic.Bool
	serverStarted func(*http.Request) error
}

// New returns a server without starting it. [Server.Check] and [Server.SetupWithManager] report errors in the options.
func New(mgr manager.Manager, options Options) *Server {
	return &Server{mgr: mgr, options: options.withDefaults().forConnection(mgr.GetConfig())}
}

// Add adds hooks. Call it before the server is set up.
func (s *Server) Add(hooks ...Hook) *Server {
	s.hooks = append(s.hooks, hooks...)
	return s
}

// Check returns all errors in the options and the hooks, and conflicts between valid hooks, joined.
func (s *Server) Check() error {
	_, err := prepareHooks(s.mgr.GetScheme(), s.options, s.hooks)
	return err
}

// SetupWithManager registers the hooks with the manager's webhook server, adds the runnables for configurations and certificates to the
// manager, and adds the readiness check "webhooks". Call it before the manager starts. Without hooks, the server only removes [Managed]
// entries that an earlier version of the operator has written.
func (s *Server) SetupWithManager() (err error) {
	all, err := prepareHooks(s.mgr.GetScheme(), s.options, s.hooks)
	if err != nil {
		return err
	}
	if len(all) == 0 && s.options.Configurations != Managed {
		return nil
	}
	release, err := s.reserve(len(all) > 0)
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
	reconciler := &configurationReconciler{
		mgr: s.mgr, options: s.options, hooks: all, triggered: make(chan struct{}, 1),
		isServerReady: func() bool { return s.Readyz(nil) == nil },
		writer:        &configurationWriter{options: s.options, client: direct, now: time.Now, lastWritten: map[hookKind]writtenEntries{}, missing: map[hookKind][]string{}},
	}
	watcher := &secretWatcher{mgr: s.mgr, startDrain: func() { s.draining.Store(true) }, release: release}
	switch c := s.options.Certificates.(type) {
	case Files:
		reconciler.caProvider = &caFile{path: c.CAFile, now: time.Now}
	case SelfManaged:
		if len(all) == 0 {
			reconciler.caProvider = &caFile{} // nothing is served, so no CA is needed
			break
		}
		store := c.newCertStore(s.options, direct, reconciler.trigger)
		reconciler.caProvider, watcher.store = store, store
		if err := serveCertificatesFrom(s.mgr.GetWebhookServer(), store); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		if err := s.register(all); err != nil {
			return err
		}
		watcher.drain = s.options.Drain
	}
	if s.options.Configurations != Unmanaged {
		if err := s.mgr.Add(reconciler); err != nil {
			return err
		}
	}
	if err := s.mgr.Add(watcher); err != nil {
		return err
	}
	if len(all) == 0 {
		return nil
	}
	return s.mgr.AddReadyzCheck("webhooks", s.Readyz)
}

// Readyz returns an error until the webhook server answers, and again while the operator shuts down. It is a healthz.Checker.
func (s *Server) Readyz(r *http.Request) error {
	if s.draining.Load() {
		return errors.New("the operator is shutting down")
	}
	if s.serverStarted == nil {
		return nil // the server has no hooks
	}
	return s.serverStarted(r)
}

func (s *Server) register(all []namedHook) error {
	server := s.mgr.GetWebhookServer()
	s.serverStarted = server.StartedChecker()
	logger := s.mgr.GetLogger().WithName("admission")
	decoder := admission.NewDecoder(s.mgr.GetScheme())
	for _, n := range all {
		e, err := newEndpoint(n.Hook, n.gvk, decoder, s.mgr.GetClient())
		if err != nil {
			return err
		}
		// The manager's webhook server panics if a path is already registered.
		err = guard.Catch("", func() error {
			server.Register(s.options.pathPrefix()+"/"+n.path, newHTTPHandler(e, logger, reviewReadTimeout, s.draining.Load))
			return nil
		})
		if fault, ok := errors.AsType[*guard.Error](err); ok {
			return fmt.Errorf("webhooks: %v: rename the handler or add all hooks to one server", fault.Value)
		}
	}
	return nil
}

// serveCertificatesFrom configures the manager's webhook server to use the certificates of the store.
func serveCertificatesFrom(server webhook.Server, store *certStore) error {
	defaultServer, ok := server.(*webhook.DefaultServer)
	if !ok {
		return fmt.Errorf("webhooks: SelfManaged certificates do not support the manager's webhook server %T: "+
			"create it with webhook.NewServer", server)
	}
	defaultServer.Options.TLSOpts = append(slices.Clone(defaultServer.Options.TLSOpts), func(c *tls.Config) { c.GetCertificate = store.GetCertificate })
	return nil
}

func (c SelfManaged) newCertStore(o Options, direct client.Client, notify func()) *certStore {
	c = c.withDefaults()
	return &certStore{
		rotation: rotation{lifetime: c.Lifetime, renewBefore: c.RenewBefore, propagationDelay: c.PropagationDelay, hosts: c.hosts(o), issueKeyPair: issueKeyPair},
		client:   direct, now: time.Now, onChange: notify,
		key: client.ObjectKey{Namespace: o.Namespace, Name: c.SecretName},
	}
}
