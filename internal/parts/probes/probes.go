package probes

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
)

// ttl is how long probe values are cached.
const ttl = 10 * time.Second

// Probes calls the probe functions and caches their values. The zero value is empty.
type Probes struct {
	list      []probe
	mu        sync.Mutex
	evaluated time.Time
	values    map[string]any
	err       error
}

type probe struct {
	id string
	fn func(context.Context) (any, error)
}

// Add adds a probe. Don't call it after the first request.
func (p *Probes) Add(id string, fn func(context.Context) (any, error)) {
	p.list = append(p.list, probe{id, fn})
}

// Has reports whether a probe with this id exists.
func (p *Probes) Has(id string) bool {
	return slices.ContainsFunc(p.list, func(one probe) bool { return one.id == id })
}

// IsEmpty reports whether there are no probes.
func (p *Probes) IsEmpty() bool { return len(p.list) == 0 }

// Serve responds with a JSON object that maps probe ids to values. The probes receive the context.
func (p *Probes) Serve(ctx context.Context, w http.ResponseWriter) {
	values, err := p.evaluate(ctx)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(values); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// evaluate returns the values of all probes, or the error of the first one that fails. It caches either for ttl.
func (p *Probes) evaluate(ctx context.Context) (map[string]any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.evaluated.IsZero() && time.Since(p.evaluated) < ttl {
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
		p.evaluated = time.Time{} // the error may come from the client's cancelled context, so it is not cached
	}
	return p.values, p.err
}

// evaluate calls the probe's function and returns its value in JSON form. A panic becomes an error.
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
