package bench

import (
	"fmt"
	"time"
)

// A variant is a way to declare an operator.
type variant struct {
	kind      kind
	handlers  int
	finalizer bool
}

// variants are all variants. The check of the benchmark uses two of them with one handler: on a busy machine, a longer
// run would checkpoint between handlers.
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

func (v variant) role(s side, namespace string) role {
	return role{Side: s, Kind: v.kind.name, Namespace: namespace, Handlers: v.handlers, Finalizer: v.finalizer}
}

// writes is the number of requests for a change.
func (v variant) writes() int {
	if v.kind.hasStatus {
		return 2
	}
	return 1
}

// warm is the number of objects that an operator handles before the measurement, so that its connections exist.
const warm = 10

// life measures creations, changes and deletions of some objects with an operator.
func (b *bench) life(v variant, s side) {
	namespace := b.namespace()
	p := b.begin(v.role(s, namespace), "life")
	defer b.stop(p)
	o := b.observe(v.kind, namespace, "")
	defer o.stop()
	b.storm(o, v.kind.objects(namespace, "warm", warm), b.create, s.handledAt(1))

	objects := v.kind.objects(namespace, "object", b.objects)
	creation := v.writes()
	if v.finalizer {
		creation++
	}
	b.measured("create", v, s, p, creation, func() time.Duration {
		return b.storm(o, objects, b.create, s.handledAt(1))
	})
	b.measured("update", v, s, p, v.writes(), func() time.Duration {
		return b.storm(o, objects, b.resize(2), s.handledAt(2))
	})
	if v.finalizer {
		b.measured("delete", v, s, p, 1, func() time.Duration {
			return b.storm(o, objects, b.remove, gone)
		})
	}
	b.clear(v.kind, namespace)
	b.awaitIdle(p)
}
