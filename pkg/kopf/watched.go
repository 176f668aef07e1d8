package kopf

import (
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
)

// watchedKinds returns the kinds whose objects the operator watches: the kinds that it watches from the start, and the kinds of [WhenServed]. It omits kinds that
// have only admission handlers.
func (o *Operator) watchedKinds(all []engine.Kind) (fixed, whenServed []kinds.Kind) {
	for i, r := range o.resources {
		kind := watchedKind(all[i], r)
		switch {
		case r.hasOnlyAdmission():
		case kind.WhenServed:
			kind.Client = o.kinds.Clients.Of(o.mgr, r.identity())
			whenServed = append(whenServed, kind)
		default:
			fixed = append(fixed, kind)
		}
	}
	return fixed, whenServed
}

// watchedKind returns the declaration of a kind without its Go type.
func watchedKind(kind engine.Kind, r resource) kinds.Kind {
	options := r.options()
	return kinds.Kind{
		Kind: kind, Controller: options.controller, Concurrency: options.concurrency, Predicates: options.predicates, WhenServed: options.whenServed,
		Related: r.relatedKinds(), Events: r.eventSelections(), Triggers: r.triggerSources(), CheckFields: fieldCheck(r),
	}
}

// recorderName is the reporting controller of the Events.
const recorderName = "kopf-runtime"

// reporters returns the reporting controllers of the operator's own Events.
func (d *declared) reporters() []string {
	if d.eventNames != nil {
		return []string{recorderName, d.eventNames.Component}
	}
	return []string{recorderName}
}
