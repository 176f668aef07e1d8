package kopftest

import (
	"encoding/json"
	"fmt"
	"sort"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A history contains all stored versions of all objects, to find handler calls that repeat finished work.
type history struct {
	changes      map[string][]apiserver.Change
	versions     []int64        // versions of the changes, without Events and Leases
	incarnations map[string]int // for each uid, the number of the object among the objects with the same name
}

func (s *scenarioRunner) history() *history {
	h := &history{changes: map[string][]apiserver.Change{}, incarnations: map[string]int{}}
	for _, c := range s.changes() {
		h.versions = append(h.versions, c.Version)
	}
	named := map[string]int{}
	for _, c := range s.cluster.server.Changes(0) {
		obj := newUnstructured(c.Object)
		uid := string(obj.GetUID())
		if h.changes[uid] == nil {
			name := obj.GetKind() + " " + obj.GetNamespace() + "/" + obj.GetName()
			named[name]++
			h.incarnations[uid] = named[name]
		}
		h.changes[uid] = append(h.changes[uid], c)
	}
	return h
}

// calls converts handler calls for package explore. For each call, it counts how often the same work's success was stored before the call.
func (h *history) calls(all []Call) (out []explore.Call) {
	written := map[string]map[int64]bool{} // versions that store the outcome, by name of the work
	for _, c := range all {
		name := h.work(c)
		again := 0
		for version := range written[name] {
			if version <= c.began {
				again++
			}
		}
		out = append(out, explore.Call{Name: name, Text: c.String(), RecordedBefore: again, Changes: h.changesUpTo(c.began)})
		if version, ok := h.written(c); ok {
			if written[name] == nil {
				written[name] = map[int64]bool{}
			}
			written[name][version] = true
		}
	}
	return out
}

// changesUpTo returns the number of changes up to a version.
func (h *history) changesUpTo(version int64) int {
	return sort.Search(len(h.versions), func(i int) bool { return h.versions[i] > version })
}

// work returns a name for a call's handler, cause, object and change. It is the same in each run.
func (h *history) work(c Call) string {
	return fmt.Sprintf("%s (%s) of %s %s, number %d: %s", c.Handler, c.Reason, c.Kind, c.Object, h.incarnations[string(c.UID)], c.changed)
}

// written returns the version of the object that stores a call's success, and false if there is none. The engine stores no progress for
// optional delete handlers, so the object's deletion doesn't prove their success.
func (h *history) written(c Call) (int64, bool) {
	e := c.engine
	if e == nil || c.Err != nil || c.Ended.IsZero() {
		return 0, false
	}
	switch c.Reason {
	case kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete:
	default:
		return 0, false
	}
	changes := h.changes[string(c.UID)]
	later := sort.Search(len(changes), func(i int) bool { return changes[i].Version > c.ended })
	baseline := ""
	if later > 0 {
		baseline = baselineOf(e, newUnstructured(changes[later-1].Object))
	}
	for _, change := range changes[later:] {
		obj := newUnstructured(change.Object)
		if change.Deleted {
			handler, ok := e.Handlers.Get(c.Handler)
			return change.Version, !ok || !handler.IsOptionalDelete()
		}
		record, err := e.Store.Fetch(obj, c.Handler)
		switch {
		case err != nil:
		case record != nil && record.Finished():
			return change.Version, true
		case record == nil && isAhead(e, obj):
			baseline = baselineOf(e, obj) // this request has stored the handlers' changes; a separate one stores the records
		case record == nil && baselineOf(e, obj) != baseline:
			return change.Version, true
		}
	}
	return 0, false
}

// isAhead reports whether the last request to the object came before the one that stores the records.
func isAhead(e *engine.Engine, obj client.Object) bool {
	var pin cause.Pin
	return json.Unmarshal(e.Pin.Fetch(obj), &pin) == nil && pin.Ahead
}

func baselineOf(e *engine.Engine, obj client.Object) string {
	return string(e.Baseline.Fetch(obj))
}
