package bridge

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var served sync.Map // *webhooks.Options by webhook.Server

// ServeAs has the operators of a manager with this webhook server serve their admission handlers by these options, and not by their own;
// without options, not at all. It holds until it is taken back.
func ServeAs(server webhook.Server, options *webhooks.Options) (takeBack func()) {
	served.Store(server, options)
	return func() { served.Delete(server) }
}

// ServedAs returns the options that were set by [ServeAs], if there are any.
func ServedAs(server webhook.Server) (options *webhooks.Options, ok bool) {
	value, ok := served.Load(server)
	options, _ = value.(*webhooks.Options)
	return options, ok
}
