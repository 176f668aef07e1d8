package declare

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
)

const (
	created = string(cause.Create)
	updated = string(cause.Update)
	deleted = string(cause.Delete)
	resumed = string(cause.Resume)
)

// CheckAfter replaces the ids of After with full ids. It returns errors for unknown ids, for dependencies on handlers of different causes,
// and for circular dependencies.
func CheckAfter(kind *engine.Kind) (errs []error) {
	errs = checkAfterIn(&kind.Handlers, "a cause handler")
	for _, id := range kind.Handlers.IDs() {
		handler, _ := kind.Handlers.Get(id)
		for _, dependency := range handler.After {
			if other, ok := kind.Handlers.Get(dependency); ok && !shareCause(handler, other) {
				errs = append(errs, fmt.Errorf("handler %q: After(%q) has no effect, because no cause matches both handlers (%s and %s): remove it",
					id, dependency, strings.Join(handler.Reasons, ", "), strings.Join(other.Reasons, ", ")))
			}
		}
	}
	return append(errs, checkAfterIn(&kind.ReconcileHandlers, "an OnReconcile handler")...)
}

// checkAfterIn makes these checks for cause handlers or for reconcile handlers.
func checkAfterIn(handlers *invoke.Registry[*invoke.Handler], sort string) (errs []error) {
	dependencies := map[string][]string{}
	for _, id := range handlers.IDs() {
		handler, _ := handlers.Get(id)
		for i, dependency := range handler.After {
			if other, ok := handlers.Get(dependency); ok && other.ClusterEvents == "" {
				continue
			}
			// For a handler with a field, After accepts the id without the field's path.
			var all, candidates []string
			for _, other := range handlers.IDs() {
				h, _ := handlers.Get(other)
				if other != id && h.ClusterEvents == "" {
					all = append(all, other)
				}
				if h.Field != nil && other == dependency+"/"+strings.Join(h.Field.Path, ".") {
					candidates = append(candidates, other)
				}
			}
			if len(candidates) != 1 {
				errs = append(errs, fmt.Errorf("handler %q: After(%q) does not refer to %s of the kind: use one of %q", id, dependency, sort, all))
				continue
			}
			handler.After[i] = candidates[0]
		}
		dependencies[id] = handler.After
	}
	for _, id := range handlers.IDs() {
		if cycle := findCycle(dependencies, id, nil); cycle != nil && cycle[0] == id && slices.Min(cycle) == id {
			errs = append(errs, fmt.Errorf("circular dependency of After (%s): remove one After",
				strings.Join(append(cycle, id), " → ")))
		}
	}
	return errs
}

// shareCause reports whether one cause can match both handlers. Resume handlers also match the first update or deletion of an existing
// object.
func shareCause(a, b *invoke.Handler) bool {
	matches := func(h *invoke.Handler, reasons ...string) bool {
		return h.AnyReason || slices.ContainsFunc(reasons, func(reason string) bool { return slices.Contains(h.Reasons, reason) })
	}
	for _, reason := range []string{created, updated, deleted, resumed} {
		if matches(a, reason) && matches(b, reason) {
			return true
		}
	}
	return matches(a, resumed) && matches(b, updated, deleted) || matches(b, resumed) && matches(a, updated, deleted)
}

// findCycle returns the first cycle in a handler's dependencies, or nil. path holds the handlers that lead to this one.
func findCycle(dependencies map[string][]string, id string, path []string) []string {
	if i := slices.Index(path, id); i >= 0 {
		return path[i:]
	}
	for _, dependency := range dependencies[id] {
		if cycle := findCycle(dependencies, dependency, append(slices.Clone(path), id)); cycle != nil {
			return cycle
		}
	}
	return nil
}

// CheckRevisions returns an error for each handler with a revision that isn't for creations or updates.
func CheckRevisions(kind *engine.Kind) (errs []error) {
	for id, handler := range kind.Handlers.All() {
		if handler.Revision > 0 && !handler.AnyReason && !slices.Contains(handler.Reasons, created) && !slices.Contains(handler.Reasons, updated) {
			errs = append(errs, fmt.Errorf("handler %q: Revision has no effect on handlers that are called neither for creations nor for updates: remove it", id))
		}
	}
	return errs
}

// CheckEarlierIDs returns an error for each RenamedFrom id that belongs to a handler, or that several handlers claim.
func CheckEarlierIDs(kind *engine.Kind) (errs []error) {
	renamed := map[string]string{}
	for _, id := range kind.Handlers.IDs() {
		handler, _ := kind.Handlers.Get(id)
		for _, earlier := range handler.EarlierIDs {
			if _, used := kind.Handlers.Get(earlier); used {
				errs = append(errs, fmt.Errorf("handler %q: RenamedFrom(%q) is the id of a handler: pass an id that is not used any more", id, earlier))
			}
			if other, twice := renamed[earlier]; twice {
				errs = append(errs, fmt.Errorf("handlers %q and %q: RenamedFrom(%q) is given twice: only one handler can continue", other, id, earlier))
			}
			renamed[earlier] = id
		}
	}
	return errs
}
