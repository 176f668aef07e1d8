package kopf

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
)

// probeTTL is how long the values of probes are kept.
const probeTTL = 10 * time.Second

// OnProbe adds a value to what [Operator.ServeProbes] tells: a function that is asked for it. An error of
// one makes the whole answer an error. There are no retries: the next question is one.
//
// kopf: @kopf.on.probe.
func OnProbe(id string, fn func(ctx context.Context) (value any, err error)) Option {
	return optionFunc(func(o *Operator) {
		switch {
		case id == "":
			o.addError(fmt.Errorf("OnProbe: the id is empty: give it a name"))
		case fn == nil:
			o.addError(fmt.Errorf("OnProbe(%q): the function is nil: give it one", id))
		case slices.ContainsFunc(o.probes.list, func(p probe) bool { return p.id == id }):
			o.addError(fmt.Errorf("OnProbe(%q): the id is used twice: give one of the functions another id", id))
		}
		o.probes.list = append(o.probes.list, probe{id, fn})
	})
}

type probe struct {
	id string
	fn func(context.Context) (any, error)
}

// probes are asked once at a time, and not again for a while.
type probes struct {
	list      []probe
	mu        sync.Mutex
	evaluated time.Time
	values    map[string]any
	err       error
}

// ServeProbes answers with the values of all probes (see [OnProbe]), as a JSON object by their ids, nil
// ones left out; with status 500 if one has failed. Answers are kept for ten seconds. [SetupWithManager]
// puts it on the manager's metrics server, under /kopf/probes.
func (o *Operator) ServeProbes() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer, err := o.probes.evaluate(objectstate.ContextWithMemos(req.Context(), &o.memos))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func (p *probes) evaluate(ctx context.Context) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.evaluated.IsZero() && time.Since(p.evaluated) < probeTTL {
		return p.values, p.err
	}
	p.values, p.err = map[string]any{}, nil
	for _, one := range p.list {
		value, err := one.evaluate(ctx)
		if err != nil {
			p.err = fmt.Errorf("probe %q: %w", one.id, err)
			break
		}
		if value != nil {
			p.values[one.id] = value
		}
	}
	p.evaluated = time.Now()
	if ctx.Err() != nil {
		p.evaluated = time.Time{} // nobody waits for the answer any more, and it may be due to that
	}
	return p.values, p.err
}

func (p probe) evaluate(ctx context.Context) (value any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	if value, err = p.fn(ctx); err != nil {
		return nil, err
	}
	return match.ToJSONValue(value)
}
