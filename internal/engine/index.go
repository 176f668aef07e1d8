package engine

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/execution"
	"github.com/kopf-runtime/kopf-runtime/internal/match"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

const reasonIndex = "index"

// Indexed is a handler that puts objects into an index.
type Indexed struct {
	Handler
	// Remove takes an object out of the index.
	Remove func(types.UID)
	// Clear takes all out.
	Clear func()
}

// failures are the attempts of index handlers that have not succeeded yet.
type failures struct {
	mu      sync.Mutex
	records map[types.UID]map[string]progress.Record
}

// index shows a state of an object to the indexes, on the informer's time: no worker is needed for it, and
// whoever is woken for the object finds it done.
func (e *Engine) index(ctx context.Context, seen client.Object) {
	obj := seen.DeepCopyObject().(client.Object)
	e.identify(obj)
	ctx = log.IntoContext(ctx, e.logOf(obj))
	content, err := patch.Content(obj)
	if err != nil {
		log.FromContext(ctx).Error(err, "The object has no JSON form")
		return
	}
	ctx = objectstate.ContextWithMemos(ctx, e.states.Memos(obj.GetUID()))
	c := &cycle{before: obj, content: content, view: &Call{
		Object: obj, OldKnown: true, Reason: reasonIndex, ConditionOptions: e.conditionOptions(),
	}}
	for _, id := range e.Indexes.IDs() {
		handler, _ := e.Indexes.Get(id)
		if ok, _ := e.passes(ctx, c, id, handler.Handler, match.Input{Object: content}); !ok {
			handler.Remove(obj.GetUID())
			continue
		}
		e.indexBy(ctx, id, handler, c)
	}
}

func (e *Engine) indexBy(ctx context.Context, id string, h Indexed, c *cycle) {
	uid := c.before.GetUID()
	record := e.failures.get(uid, id)
	if record.Failure || record.Delayed.After(now()) {
		return // it is out
	}
	if record.Started.IsZero() {
		record.Started = now()
	}
	outcome := execution.Invoke(ctx, execution.Invocation{
		Kind: e.Name, ID: id, Reason: reasonIndex, Policy: h.Policy, Record: record, QuietSuccess: true, Warnings: h.Hints,
		Func: func(ctx context.Context) error {
			return h.Do(ctx, &Call{
				ID: id, Object: c.before.DeepCopyObject().(client.Object), OldKnown: true, Field: h.present(c), Reason: reasonIndex,
				Attempt: record.Attempt(), Notify: e.notifierFor(c.before), ConditionOptions: e.conditionOptions(),
			})
		},
	})
	if outcome.Success {
		e.failures.set(uid, id, progress.Record{})
		return
	}
	h.Remove(uid)
	e.failures.set(uid, id, record.WithOutcome(outcome, now()))
}

// unindex takes an object that is gone out of the indexes.
func (e *Engine) unindex(obj client.Object) {
	for _, id := range e.Indexes.IDs() {
		handler, _ := e.Indexes.Get(id)
		handler.Remove(obj.GetUID())
	}
	e.failures.forget(obj.GetUID())
}

func (f *failures) get(uid types.UID, id string) progress.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[uid][id]
}

// set keeps the record of a failure; the zero one is forgotten.
func (f *failures) set(uid types.UID, id string, record progress.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if record.Started.IsZero() {
		if delete(f.records[uid], id); len(f.records[uid]) == 0 {
			delete(f.records, uid)
		}
		return
	}
	if f.records == nil {
		f.records = map[types.UID]map[string]progress.Record{}
	}
	if f.records[uid] == nil {
		f.records[uid] = map[string]progress.Record{}
	}
	f.records[uid][id] = record
}

func (f *failures) forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.records, uid)
}
