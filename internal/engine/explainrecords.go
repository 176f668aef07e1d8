package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// pendingHandlers describes a vanished object's delete handlers that haven't succeeded. Only the object's worker may call it.
func (e *Engine) pendingHandlers(t *tombstone) (all []explain.Handler) {
	if t.state == nil {
		return nil
	}
	for _, id := range e.Handlers.IDs() {
		record := t.state.Record(id)
		if h, _ := e.Handlers.Get(id); record.Started.IsZero() || record.Success || !slices.Contains(h.Reasons, string(cause.Delete)) {
			continue
		}
		one := explain.Handler{ID: id, Kind: "cause", State: stateOf(record)}
		if setRecord(&one, record); one.State == explain.Waiting {
			one.Due = new(record.Delayed)
		}
		all = append(all, one)
	}
	return all
}

// pendingDeletion describes the handlers of a key's vanished objects that haven't succeeded.
func (e *Engine) pendingDeletion(key types.NamespacedName) (all []explain.Handler) {
	for _, t := range e.gone.tombstones.Get(key) {
		if pending := t.pending.Load(); pending != nil {
			all = append(all, *pending...)
		}
	}
	return all
}

// setRecord adds a record's attempts, error and times.
func setRecord(one *explain.Handler, record progress.Record) {
	one.Attempts, one.LastError = record.Retries, record.Message
	if !record.Started.IsZero() && record.Retries > 0 { // without attempts, Started may be the time of this explanation
		one.Started = new(record.Started)
	}
	if !record.Stopped.IsZero() {
		one.Ended = new(record.Stopped)
	}
}

func stateOf(record progress.Record) explain.State {
	switch {
	case record.Success:
		return explain.Succeeded
	case record.Failure:
		return explain.Failed
	case !record.Due(now()):
		return explain.Waiting
	default:
		return explain.Due
	}
}
