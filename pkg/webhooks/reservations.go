package webhooks

import (
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// reservations contains the resources that the servers of each manager use exclusively. Two servers that write one configuration as the
// same field owner would keep removing each other's entries, and a manager has only one webhook server with one certificate.
var reservations sync.Map

type (
	// configurationReservation reserves the entries of a field owner in a configuration.
	configurationReservation struct {
		mgr         manager.Manager
		name, owner string
	}
	// certificateReservation reserves the webhook server's certificate. The value in the map is the certificate source.
	certificateReservation struct{ mgr manager.Manager }
)

// reserve reserves the configurations and the certificate of the server. A server without hooks doesn't reserve the certificate, and one
// with unmanaged configurations reserves nothing.
func (s *Server) reserve(serves bool) (release func(), err error) {
	o := s.options
	release = func() {}
	if o.Configurations == Unmanaged {
		return release, nil
	}
	configuration := configurationReservation{s.mgr, o.Name, o.FieldOwner}
	if _, taken := reservations.LoadOrStore(configuration, true); taken {
		return nil, fmt.Errorf("webhooks: another server of this manager already writes the configurations %q as field owner %q: "+
			"add all handlers to one server, or give one of them another Name or FieldOwner", o.Name, o.FieldOwner)
	}
	release = func() { reservations.Delete(configuration) }
	if !serves {
		return release, nil
	}
	source, certificate := certificateSource(o), certificateReservation{s.mgr}
	other, taken := reservations.LoadOrStore(certificate, source)
	switch {
	case !taken:
		release = func() {
			reservations.Delete(configuration)
			reservations.Delete(certificate)
		}
	case other != source:
		release()
		return nil, fmt.Errorf("webhooks: two servers of this manager need different certificates, %s and %s, but the manager has one webhook "+
			"server: set the same Certificates in both", other, source)
	}
	return release, nil
}

// certificateSource describes where the certificates come from, for errors.
func certificateSource(o Options) string {
	if c, ok := o.Certificates.(SelfManaged); ok {
		return fmt.Sprintf("SelfManaged in the Secret %s", client.ObjectKey{Namespace: o.Namespace, Name: c.withDefaults().SecretName})
	}
	return "Files"
}
