package bench

import (
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// A lane is an operator with one object that is changed, one change at a time.
type lane struct {
	side      // side in the report
	handledAt func(size int) func(sight) bool
	obj       v1.Object
	o         *observer
	took      []float64 // milliseconds of each change
}

// opened creates the object, and waits until it is handled.
func (b *bench) opened(s side, handledAt func(int) func(sight) bool, obj v1.Object, o *observer) *lane {
	b.t.Helper()
	b.storm(o, []v1.Object{obj}, b.create, handledAt(1))
	return &lane{side: s, handledAt: handledAt, obj: obj, o: o}
}

// latency measures single changes without other load; both operators run.
func (b *bench) latency(sides []side) {
	v := variant{kind: widgets, handlers: 1}
	var lanes []*lane
	for _, s := range sides {
		namespace := b.namespace()
		defer b.clear(v.kind, namespace)
		p := b.begin(v.role(s, namespace), "latency")
		defer b.stop(p)
		o := b.observe(v.kind, namespace, "")
		defer o.stop()
		lanes = append(lanes, b.opened(s, s.handledAt, v.kind.object(namespace, "object"), o))
	}
	b.takeTurns(lanes, "one change, 1 handler +status", 1.1)
}

// takeTurns changes the objects in turn, and records the time of each change: from its event to the event of the
// result.
func (b *bench) takeTurns(lanes []*lane, what string, ratio float64) {
	b.t.Helper()
	for size := 2; size < b.changes+2; size++ {
		for _, l := range lanes {
			b.ok(b.resize(size)(b.t.Context(), l.obj))
			var shown time.Time
			b.ok(l.o.until(b.t.Context(), func(s sight) bool {
				if spec, _ := s.obj.Content(); spec.Size == size && shown.IsZero() {
					shown = s.at
				}
				if !l.handledAt(size)(s) {
					return false
				}
				l.took = append(l.took, milliseconds(s.at.Sub(shown)))
				return true
			}))
		}
	}
	for _, l := range lanes {
		b.report.add(what, "latency ms, p50", l.side, percentile(l.took, 50), atMost(ratio))
		b.report.add(what, "latency ms, p99", l.side, percentile(l.took, 99), atMost(ratio))
	}
}
