package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// An office has an operator for each team that it is open for.
type office struct {
	config *rest.Config
	books  books

	mu        sync.Mutex // held while one is started or stopped: they are asked for one after the other
	operators map[string]*operator
}

// routes are how the program is asked.
func (o *office) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /teams", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, o.list()) })
	mux.HandleFunc("PUT /teams/{team}", func(w http.ResponseWriter, req *http.Request) {
		answer(w, o.open(req.Context(), req.PathValue("team")))
	})
	mux.HandleFunc("DELETE /teams/{team}", func(w http.ResponseWriter, req *http.Request) {
		answer(w, o.close(req.PathValue("team")))
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// open starts the operator of a team, if it does not run.
func (o *office) open(ctx context.Context, team string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if running := o.operators[team]; running != nil && !running.hasEnded() {
		return nil
	}
	started, err := start(ctx, o.config, team, &o.books)
	if err != nil {
		return fmt.Errorf("the operator of %s does not start: %w", team, err)
	}
	if o.operators == nil {
		o.operators = map[string]*operator{}
	}
	o.operators[team] = started
	return nil
}

// close stops the operator of a team, if there is one.
func (o *office) close(team string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	running := o.operators[team]
	if running == nil {
		return nil
	}
	delete(o.operators, team)
	return running.close()
}

func (o *office) closeAll() error {
	var problems []error
	for _, team := range o.teams() {
		problems = append(problems, o.close(team))
	}
	return errors.Join(problems...)
}

func (o *office) teams() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.operators))
}

// list has a line for each team that the office is open for.
func (o *office) list() string {
	var lines strings.Builder
	for _, team := range o.teams() {
		fmt.Fprintf(&lines, "%s: %s\n", team, strings.Join(o.books.of(team), ", "))
	}
	return lines.String()
}
