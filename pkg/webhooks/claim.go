package webhooks

import (
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// claims are what the servers of each manager have for themselves. Two of them that write one configuration under one name
// would take away each other's entries for ever; and a manager has one webhook server, which shows one certificate.
var claims sync.Map

type (
	// An applied claim is for the entries that a server writes.
	applied struct {
		mgr         manager.Manager
		name, owner string
	}
	// A shown claim is for the certificate. Its value tells which.
	shown struct{ mgr manager.Manager }
)

// claim reserves what the server needs. A server whose configurations are somebody else's business needs nothing.
func (s *Server) claim(serves bool) (release func(), err error) {
	o := s.options
	release = func() {}
	if o.Configurations == Unmanaged {
		return release, nil
	}
	mine := applied{s.mgr, o.Name, o.FieldOwner}
	if _, taken := claims.LoadOrStore(mine, true); taken {
		return nil, fmt.Errorf("webhooks: another server of this manager writes the configurations %q as the field owner %q, and each would "+
			"take away what the other has written: put all handlers into one, or give one of them another Name or FieldOwner", o.Name, o.FieldOwner)
	}
	release = func() { claims.Delete(mine) }
	if !serves {
		return release, nil
	}
	source, certificate := sourceOf(o), shown{s.mgr}
	other, taken := claims.LoadOrStore(certificate, source)
	switch {
	case !taken:
		release = func() {
			claims.Delete(mine)
			claims.Delete(certificate)
		}
	case other != source:
		release()
		return nil, fmt.Errorf("webhooks: the manager has one webhook server, and its certificates are %s for another server of hooks, "+
			"and %s for this one: give both the same Certificates", other, source)
	}
	return release, nil
}

// sourceOf names where certificates come from.
func sourceOf(o Options) string {
	if c, ok := o.Certificates.(SelfManaged); ok {
		return fmt.Sprintf("SelfManaged in the Secret %s", client.ObjectKey{Namespace: o.Namespace, Name: c.withDefaults().SecretName})
	}
	return "Files"
}
