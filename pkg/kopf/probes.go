package kopf

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// probeTTL is the time for which the operator caches the values of probes.
const probeTTL = 10 * time.Second

// OnProbe adds a function whose value is part of the response of [Operator.ServeProbes]. The operator calls the functions one after the other
// when a client requests the probes and no cached response exists. If a function returns an error or panics, the whole response is an error.
// The value must have a JSON form. The response does not contain nil values.
//
// Equivalent in kopf: @kopf.on.probe.
func OnProbe(id string, fn func(ctx context.Context) (value any, err error)) Option {
	return optionFunc(func(o *Operator) {
		switch {
		case id == "":
			o.addError(fmt.Errorf("OnProbe: the id is empty: set one"))
		case fn == nil:
			o.addError(fmt.Errorf("OnProbe(%q): the function is nil: pass a function", id))
		case slices.ContainsFunc(o.functions.probes.list, func(p probe) bool { return p.id == id }):
			o.addError(fmt.Errorf("OnProbe(%q): the id is used twice: rename one of the functions", id))
		}
		o.functions.probes.list = append(o.functions.probes.list, probe{id, fn})
	})
}

type probe struct {
	id string
	fn func(context.Context) (any, error)
}

// probes calls the functions of OnProbe and caches their values.
type probes struct {
	list      []probe
	mu        sync.Mutex
	evaluated time.Time
	values    map[string]any
	err       error
}

// ServeProbes returns an HTTP handler that responds with the values of all probes (see [OnProbe]), as a JSON object with their ids as keys. The
// status is 500 if a probe has failed. Responses are cached for ten seconds. [SetupWithManager] adds the handler to the metrics server under
// /kopf/probes.
func (o *Operator) ServeProbes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := log.IntoContext(objectstate.ContextWithMemos(req.Context(), &o.functions.memos), o.mgr.GetLogger())
		values, err := o.functions.probes.evaluate(ctx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(values); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// evaluate returns the values of all probes, or the error of the first probe that fails. It caches both for probeTTL.
func (p *probes) evaluate(ctx context.Context) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.evaluated.IsZero() && time.Since(p.evaluated) < probeTTL {
		return p.values, p.err
	}
	p.values, p.err = map[string]any{}, nil
	for _, probe := range p.list {
		value, err := probe.evaluate(ctx)
		if err != nil {
			p.err = fmt.Errorf("probe %q: %w", probe.id, err)
			break
		}
		if value != nil {
			p.values[probe.id] = value
		}
	}
	p.evaluated = time.Now()
	if ctx.Err() != nil {
		p.evaluated = time.Time{} // the cancelled context of the client may be the cause of an error, so the result is not cached
	}
	return p.values, p.err
}

// evaluate calls the function of the probe and returns the JSON form of its value. It returns a panic as an error.
func (p probe) evaluate(ctx context.Context) (value any, err error) {
	err = guard.Call("", func() error {
		if value, err = p.fn(ctx); err != nil {
			return err
		}
		value, err = match.ToJSONValue(value)
		return err
	})
	if trace := guard.Trace(err); trace != "" {
		log.FromContext(ctx).Error(err, "A probe panicked", "probe", p.id, "stack", trace)
	}
	return value, err
}
