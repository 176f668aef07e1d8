package main

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// An inventory lists the databases of each team. The handlers of the operators maintain it, and the server reads it.
type inventory struct {
	mu        sync.Mutex
	databases map[string]map[string]bool // databases by team and name
}

// add returns a handler that adds the object to the databases of a team.
func (i *inventory) add(team string) kopf.Handler[Object] {
	return func(ctx context.Context, req *Request) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.databases == nil {
			i.databases = map[string]map[string]bool{}
		}
		if i.databases[team] == nil {
			i.databases[team] = map[string]bool{}
		}
		i.databases[team][req.Object.GetName()] = true
		log.FromContext(ctx).Info("Added to the list", "cause", req.Reason)
		return nil
	}
}

// remove returns a handler that removes the object from the databases of a team.
func (i *inventory) remove(team string) kopf.Handler[Object] {
	return func(ctx context.Context, req *Request) error {
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.databases[team], req.Object.GetName())
		log.FromContext(ctx).Info("Removed from the list")
		return nil
	}
}

// list returns the sorted names of the databases of a team.
func (i *inventory) list(team string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.databases[team]))
}
