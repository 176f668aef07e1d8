package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// measured runs a step with the objects of a storm, and records its cost.
func (b *bench) measured(storm string, v variant, s side, p *process, writes int, run func() time.Duration) {
	b.t.Helper()
	what := storm + ", " + v.String()
	before, written := b.awaitIdle(p), b.patches(v.kind)
	took := run()
	done := work{b.objects, took, b.awaitIdle(p).CPU - before.CPU}
	b.recordWork(what, s, done)
	b.totals.add(storm, s, done)
	b.report.add(what, "writes per object", s, float64(b.patches(v.kind)-written)/float64(b.objects), exactly(float64(writes)))
}

// A work is the cost of handling some objects.
type work struct {
	objects   int
	took, cpu time.Duration
}

func (w work) plus(other work) work {
	return work{w.objects + other.objects, w.took + other.took, w.cpu + other.cpu}
}

func (b *bench) recordWork(what string, s side, w work) {
	b.report.add(what, "objects per second", s, float64(w.objects)/w.took.Seconds(), atLeast(0.95))
	b.report.add(what, "CPU ms per object", s, milliseconds(w.cpu)/float64(w.objects), atMost(1.25))
}

// totals is the work of a round in all variants together, by storms, to reduce the variance.
type totals map[string]map[side]work

func (t totals) add(storm string, s side, w work) {
	if t[storm] == nil {
		t[storm] = map[side]work{}
	}
	t[storm][s] = t[storm][s].plus(w)
}

func (b *bench) recordTotals(all totals) {
	for _, storm := range slices.Sorted(maps.Keys(all)) {
		for s, w := range all[storm] {
			b.recordWork(storm+", all variants", s, w)
		}
	}
}

// waited measures objects that were created without an operator.
func (b *bench) waited(s side) {
	const what = "backlog, 1 handler +status"
	v := variant{kind: widgets, handlers: 1}
	namespace := b.namespace()
	defer b.clear(v.kind, namespace)
	objects := v.kind.objects(namespace, "object", b.backlog)
	b.ok(b.requestAll(b.t.Context(), objects, b.create))
	o := b.observe(v.kind, namespace, "")
	defer o.stop()
	_, err := o.each(b.t.Context(), objects, seen)
	b.ok(err)

	p := b.launch(v.role(s, namespace), "backlog")
	defer b.stop(p)
	before, written := b.order(p, doStats), b.patches(v.kind)
	began := time.Now()
	b.order(p, doStart)
	last, err := o.each(b.t.Context(), objects, s.handledAt(1))
	b.ok(err)
	after := b.awaitIdle(p)
	b.recordWork(what, s, work{b.backlog, last.Sub(began), after.CPU - before.CPU})
	b.report.add(what, "writes per object", s, float64(b.patches(v.kind)-written)/float64(b.backlog), exactly(float64(v.writes())))
}

// restart measures a start over handled objects; a new object is created right after the start. Then it measures the
// memory and the idle operator.
func (b *bench) restart(s side) {
	v := variant{kind: gadgets, handlers: 1}
	stock := b.stocked(v.role(s, ""), b.standing)
	restart := fmt.Sprintf("restart over %d", b.standing)
	idle := fmt.Sprintf("idle with %d", b.standing)
	fresh := v.kind.objects(stock.namespace, fmt.Sprintf("fresh-%d", b.round), 1)
	o := b.observe(v.kind, stock.namespace, fresh[0].GetName())
	defer o.stop()

	p := b.launch(v.role(s, stock.namespace), "restart")
	defer b.stop(p)
	before, written := b.order(p, doStats), b.patches(v.kind)
	b.order(p, doStart)
	b.order(p, doSync)
	served := b.storm(o, fresh, b.create, s.handledAt(1))
	passed := b.order(p, doStats).Passes
	b.poll(pollInterval, func() bool { return b.order(p, doStats).Passes > int64(b.standing) })
	after := b.awaitIdle(p)
	b.report.add(restart, "writes", s, float64(b.patches(v.kind)-written-v.writes()), exactly(0))
	b.report.add(restart, "CPU ms per object", s, milliseconds(after.CPU-before.CPU)/float64(b.standing), open)
	b.report.add(restart, "a new object, ms until handled", s, milliseconds(served), below(1000))
	b.report.add(restart, "passes before it was", s, float64(passed), open)

	grown := float64(b.order(p, doCollect).Heap) - float64(stock.bare)
	b.report.add(idle, "bytes per object over the informer", s, grown/float64(b.standing), below(2048))
	b.rest(idle, s, v.kind, p)
	b.storm(o, fresh, b.remove, gone)
}

// rest measures an idle operator.
func (b *bench) rest(what string, s side, k kind, p *process) {
	before, written, began := b.awaitIdle(p), b.patches(k), time.Now()
	b.sleepFor(b.idle)
	after, took := b.order(p, doStats), time.Since(began)
	b.report.add(what, "writes", s, float64(b.patches(k)-written), exactly(0))
	b.report.add(what, "CPU ms per second", s, milliseconds(after.CPU-before.CPU)/took.Seconds(), below(5))
}

// sleepFor waits.
func (b *bench) sleepFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile returns a percentile of the measured values.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
