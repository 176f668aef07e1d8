package kopf

import (
	"context"
	"fmt"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// OnProbe adds a function whose value becomes part of the response of [Operator.ServeProbes]. If there is no cached response, a request
// makes the operator call the functions one after the other. If one of them returns an error or panics, the whole response is an error. The
// value must have a JSON form. The response leaves out nil values.
//
// Equivalent in kopf: @kopf.on.probe.
func OnProbe(id string, fn func(ctx context.Context) (value any, err error)) Option {
	return optionFunc(func(o *Operator) {
		switch {
		case id == "":
			o.addError(fmt.Errorf("OnProbe: the id is empty: set one"))
		case fn == nil:
			o.addError(fmt.Errorf("OnProbe(%q): the function is nil: pass a function", id))
		case o.functions.probes.Has(id):
			o.addError(fmt.Errorf("OnProbe(%q): the id is used twice: rename one of the functions", id))
		}
		o.functions.probes.Add(id, fn)
	})
}

// ServeProbes returns an HTTP handler that responds with the values of all probes (see [OnProbe]), as a JSON object with their ids as keys.
// The status is 500 if a probe has failed. The response is cached for ten seconds. [SetupWithManager] adds the handler to the metrics
// server under /kopf/probes.
func (o *Operator) ServeProbes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		o.functions.probes.Serve(log.IntoContext(objectstate.ContextWithMemos(req.Context(), &o.functions.memos), o.mgr.GetLogger()), w)
	})
}
