package peering

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Readyz returns an error until the peers are observed, while a mandatory peering object is missing, and while peering fails. An operator
// that is paused by peers, or waits to become the leader, is ready. Readyz is a healthz.Checker: mgr.AddReadyzCheck("peering", p.Readyz).
// [Peering.Describe] has more details.
func (p *Peering) Readyz(*http.Request) error {
	var problems []error
	p.forEachState(func(prefix string, s state) {
		switch s.phase {
		case notObserved, failing, objectMissing:
			problems = append(problems, errors.New(prefix+s.message))
		default: // all other phases are ready
		}
	})
	return errors.Join(problems...)
}

// Describe returns one line for each namespace, which explains to users whether and why the operator is paused.
func (p *Peering) Describe() string {
	var lines []string
	p.forEachState(func(prefix string, s state) {
		activity := "works"
		if s.isPaused() {
			activity = "paused"
		}
		lines = append(lines, fmt.Sprintf("%s%s: %s", prefix, activity, s.message))
	})
	return strings.Join(lines, "\n")
}

// ServeHTTP returns the text of [Peering.Describe], with status 503 if [Peering.Readyz] fails:
// mgr.AddMetricsServerExtraHandler("/peering", p).
func (p *Peering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if p.Readyz(r) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintln(w, p.Describe()) // the client can have closed the connection
}

func (p *Peering) forEachState(visit func(prefix string, s state)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(p.states)) {
		prefix := ""
		if namespace != "" {
			prefix = "namespace " + namespace + ": "
		}
		visit(prefix, p.stateFor(namespace))
	}
}
