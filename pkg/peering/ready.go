package peering

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Readyz fails while the peers have not been looked at yet, while a mandatory peering object is missing, and while
// peering fails. An operator that is paused by others is ready, and so is one that waits to become the leader. It is a
// healthz.Checker: mgr.AddReadyzCheck("peering", p.Readyz). What it cannot say, as a check that passes is silent,
// [Peering.Describe] does.
func (p *Peering) Readyz(*http.Request) error {
	var problems []error
	p.eachState(func(prefix string, s state) {
		switch s.cause {
		case looking, failing, missing:
			problems = append(problems, errors.New(prefix+s.why))
		default: // ready to work, as soon as it may
		}
	})
	return errors.Join(problems...)
}

// Describe says for people whether the operator works or is paused, and why: a line for each namespace.
func (p *Peering) Describe() string {
	var lines []string
	p.eachState(func(prefix string, s state) {
		what := "works"
		if s.paused() {
			what = "paused"
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s", prefix, what, s.why))
	})
	return strings.Join(lines, "\n")
}

// ServeHTTP answers with what [Peering.Describe] says, and with the code 503 if [Peering.Readyz] fails:
// mgr.AddMetricsServerExtraHandler("/peering", p).
func (p *Peering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if p.Readyz(r) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintln(w, p.Describe()) // who has gone does not read it
}

func (p *Peering) eachState(visit func(prefix string, s state)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(p.states)) {
		prefix := ""
		if namespace != "" {
			prefix = "namespace " + namespace + ": "
		}
		visit(prefix, p.current(namespace))
	}
}
