package bench

import (
	"fmt"
	"time"
)

// variant is a configuration of the operator in the lifecycle scenario.
type variant struct {
	kind      kind
	handlers  int
	finalizer bool
}

// variants returns all combinations. Without -measure, it returns only two, each with one handler. With several
// handlers, a slow operator may write a checkpoint between them, so the number of writes would vary.
func variants() []variant {
	if !*measure {
		return []variant{{gadgets, 1, false}, {widgets, 1, true}}
	}
	var all []variant
	for _, k := range []kind{gadgets, widgets} {
		for _, finalizer := range []bool{false, true} {
			for _, n := range []int{1, len(steps)} {
				all = append(all, variant{k, n, finalizer})
			}
		}
	}
	return all
}

func (v variant) String() string {
	text := fmt.Sprintf("%d handler", v.handlers)
	if v.handlers > 1 {
		text += "s"
	}
	if v.finalizer {
		text += " +finalizer"
	}
	if v.kind.hasStatus {
		text += " +status"
	}
	return text
}

// role returns the configuration of the operator process.
func (v variant) role(s side, namespace string) role {
	return role{Side: s, Kind: v.kind.name, Namespace: namespace, Handlers: v.handlers, Finalizer: v.finalizer}
}

// writes returns the documented number of writes for one change.
func (v variant) writes() int {
	if v.kind.hasStatus {
		return 2
	}
	return 1
}

// warm is the number of objects that the operator handles before the measurement, to open its connections and fill its
// caches.
const warm = 10

// measureLifecycle measures the creation, change and deletion of b.objects objects while an operator runs.
func (b *bench) measureLifecycle(v variant, s side) {
	namespace := b.namespace()
	p := b.startSynced(v.role(s, namespace), "lifecycle")
	defer b.stop(p)
	o := b.observe(v.kind, namespace, "")
	defer o.stop()
	b.requestAndAwait(o, v.kind.objects(namespace, "warm", warm), b.create, s.handledAt(1))

	objects := v.kind.objects(namespace, "object", b.objects)
	creationWrites := v.writes()
	if v.finalizer {
		creationWrites++
	}
	b.measureStep("create", v, s, p, creationWrites, func() time.Duration {
		return b.requestAndAwait(o, objects, b.create, s.handledAt(1))
	})
	b.measureStep("update", v, s, p, v.writes(), func() time.Duration {
		return b.requestAndAwait(o, objects, b.resize(2), s.handledAt(2))
	})
	if v.finalizer {
		b.measureStep("delete", v, s, p, 1, func() time.Duration {
			return b.requestAndAwait(o, objects, b.remove, isDeleted)
		})
	}
	b.clear(v.kind, namespace)
	b.awaitIdle(p)
}
