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

// A teamServer starts and stops one operator for each team, and serves their inventory.
type teamServer struct {
	config    *rest.Config
	inventory inventory

	mu        sync.Mutex // held while an operator starts or stops, so that requests are processed one after another
	operators map[string]*operator
}

// routes returns the handler of the HTTP API.
func (s *teamServer) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /teams", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, s.list()) })
	mux.HandleFunc("PUT /teams/{team}", func(w http.ResponseWriter, req *http.Request) {
		respond(w, s.startTeam(req.Context(), req.PathValue("team")))
	})
	mux.HandleFunc("DELETE /teams/{team}", func(w http.ResponseWriter, req *http.Request) {
		respond(w, s.stopTeam(req.PathValue("team")))
	})
	return mux
}

// respond sends the error of a request, or no content.
func respond(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// startTeam starts the operator of a team unless it runs.
func (s *teamServer) startTeam(ctx context.Context, team string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if running := s.operators[team]; running != nil && !running.hasEnded() {
		return nil
	}
	started, err := startOperator(ctx, s.config, team, &s.inventory)
	if err != nil {
		return fmt.Errorf("failed to start the operator of team %s: %w", team, err)
	}
	if s.operators == nil {
		s.operators = map[string]*operator{}
	}
	s.operators[team] = started
	return nil
}

// stopTeam stops the operator of a team if it runs.
func (s *teamServer) stopTeam(team string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	running := s.operators[team]
	if running == nil {
		return nil
	}
	delete(s.operators, team)
	return running.shutDown()
}

// stopAll stops all operators.
func (s *teamServer) stopAll() error {
	var problems []error
	for _, team := range s.teams() {
		problems = append(problems, s.stopTeam(team))
	}
	return errors.Join(problems...)
}

// teams returns the sorted names of the teams with an operator.
func (s *teamServer) teams() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.operators))
}

// list returns one line with the databases of each team that has an operator.
func (s *teamServer) list() string {
	var lines strings.Builder
	for _, team := range s.teams() {
		fmt.Fprintf(&lines, "%s: %s\n", team, strings.Join(s.inventory.list(team), ", "))
	}
	return lines.String()
}
