package bench

import (
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// target is an object of one operator. The benchmark changes it, one change at a time.
type target struct {
	side      // side to which the report attributes the latencies
	handledAt func(size int) func(event) bool
	obj       v1.Object
	o         *observer
	took      []float64 // latency of each change, in milliseconds
}

// newTarget creates the object and waits until it is handled.
func (b *bench) newTarget(s side, handledAt func(int) func(event) bool, obj v1.Object, o *observer) *target {
	b.t.Helper()
	b.requestAndAwait(o, []v1.Object{obj}, b.create, handledAt(1))
	return &target{side: s, handledAt: handledAt, obj: obj, o: o}
}

// measureLatency measures single changes without other load while both operators run.
func (b *bench) measureLatency(sides []side) {
	v := variant{kind: widgets, handlers: 1}
	var targets []*target
	for _, s := range sides {
		namespace := b.namespace()
		defer b.clear(v.kind, namespace)
		p := b.startSynced(v.role(s, namespace), "latency")
		defer b.stop(p)
		o := b.observe(v.kind, namespace, "")
		defer o.stop()
		targets = append(targets, b.newTarget(s, s.handledAt, v.kind.object(namespace, "object"), o))
	}
	b.measureChanges(targets, "one change, 1 handler +status", 1.1)
}

// measureChanges changes the objects in turn. It records the time from the event of each change to the event in which
// the change is handled. ratio is the budget for the subject.
func (b *bench) measureChanges(targets []*target, what string, ratio float64) {
	b.t.Helper()
	for size := 2; size < b.changes+2; size++ {
		for _, l := range targets {
			b.must(b.resize(size)(b.t.Context(), l.obj))
			var changedAt time.Time
			b.must(l.o.until(b.t.Context(), func(s event) bool {
				if spec, _ := s.obj.Content(); spec.Size == size && changedAt.IsZero() {
					changedAt = s.at
				}
				if !l.handledAt(size)(s) {
					return false
				}
				l.took = append(l.took, milliseconds(s.at.Sub(changedAt)))
				return true
			}))
		}
	}
	for _, l := range targets {
		b.report.add(what, "latency ms, p50", l.side, percentile(l.took, 50), atMost(ratio))
		b.report.add(what, "latency ms, p99", l.side, percentile(l.took, 99), atMost(ratio))
	}
}
