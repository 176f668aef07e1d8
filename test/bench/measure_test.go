package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// measureStep calls run, which requests b.objects changes, and records the cost and the number of writes.
func (b *bench) measureStep(operation string, v variant, s side, p *process, writes int, run func() time.Duration) {
	b.t.Helper()
	what := operation + ", " + v.String()
	before, written := b.awaitIdle(p), b.patches(v.kind)
	took := run()
	stepCost := cost{b.objects, took, b.awaitIdle(p).CPU - before.CPU}
	b.recordCost(what, s, stepCost)
	b.totals.add(operation, s, stepCost)
	b.report.add(what, "writes per object", s, float64(b.patches(v.kind)-written)/float64(b.objects), exactly(float64(writes)))
}

// cost is the time that an operator needs for a number of objects.
type cost struct {
	objects   int
	took, cpu time.Duration // elapsed time; CPU time of the operator
}

func (c cost) plus(other cost) cost {
	return cost{c.objects + other.objects, c.took + other.took, c.cpu + other.cpu}
}

func (b *bench) recordCost(what string, s side, c cost) {
	b.report.add(what, "objects per second", s, float64(c.objects)/c.took.Seconds(), atLeast(0.95))
	b.report.add(what, "CPU ms per object", s, milliseconds(c.cpu)/float64(c.objects), atMost(1.25))
}

// totals is the cost of each operation in all variants of a round. The totals vary less than the single costs.
type totals map[string]map[side]cost

func (t totals) add(operation string, s side, c cost) {
	if t[operation] == nil {
		t[operation] = map[side]cost{}
	}
	t[operation][s] = t[operation][s].plus(c)
}

func (b *bench) recordTotals(all totals) {
	for _, operation := range slices.Sorted(maps.Keys(all)) {
		for s, total := range all[operation] {
			b.recordCost(operation+", all variants", s, total)
		}
	}
}

// measureBacklog measures the start of an operator when all objects exist and none is handled.
func (b *bench) measureBacklog(s side) {
	const what = "backlog, 1 handler +status"
	v := variant{kind: widgets, handlers: 1}
	namespace := b.namespace()
	defer b.clear(v.kind, namespace)
	objects := v.kind.objects(namespace, "object", b.backlog)
	b.must(b.requestAll(b.t.Context(), objects, b.create))
	o := b.observe(v.kind, namespace, "")
	defer o.stop()
	_, err := o.each(b.t.Context(), objects, isSeen)
	b.must(err)

	p := b.startProcess(v.role(s, namespace), "backlog")
	defer b.stop(p)
	before, written := b.send(p, doStats), b.patches(v.kind)
	began := time.Now()
	b.send(p, doStart)
	last, err := o.each(b.t.Context(), objects, s.handledAt(1))
	b.must(err)
	after := b.awaitIdle(p)
	b.recordCost(what, s, cost{b.backlog, last.Sub(began), after.CPU - before.CPU})
	b.report.add(what, "writes per object", s, float64(b.patches(v.kind)-written)/float64(b.backlog), exactly(float64(v.writes())))
}

// measureRestart measures the start of an operator when all objects are already handled. It creates one more object
// immediately after the start. Then it measures the memory of the idle operator and its activity.
func (b *bench) measureRestart(s side) {
	v := variant{kind: gadgets, handlers: 1}
	set := b.handledObjects(v.role(s, ""), b.standing)
	restart := fmt.Sprintf("restart over %d", b.standing)
	idle := fmt.Sprintf("idle with %d", b.standing)
	added := v.kind.objects(set.namespace, fmt.Sprintf("new-%d", b.round), 1)
	o := b.observe(v.kind, set.namespace, added[0].GetName())
	defer o.stop()

	p := b.startProcess(v.role(s, set.namespace), "restart")
	defer b.stop(p)
	before, written := b.send(p, doStats), b.patches(v.kind)
	b.send(p, doStart)
	b.send(p, doSync)
	handledAfter := b.requestAndAwait(o, added, b.create, s.handledAt(1))
	reconciles := b.send(p, doStats).Reconciles
	b.poll(pollInterval, func() bool { return b.send(p, doStats).Reconciles > int64(b.standing) })
	after := b.awaitIdle(p)
	b.report.add(restart, "writes", s, float64(b.patches(v.kind)-written-v.writes()), exactly(0))
	b.report.add(restart, "CPU ms per object", s, milliseconds(after.CPU-before.CPU)/float64(b.standing), noBudget)
	b.report.add(restart, "a new object, ms until handled", s, milliseconds(handledAfter), below(1000))
	b.report.add(restart, "reconciles before that", s, float64(reconciles), noBudget)

	grown := float64(b.send(p, doCollect).Heap) - float64(set.bare)
	b.report.add(idle, "bytes per object over the informer", s, grown/float64(b.standing), below(2048))
	b.measureIdle(idle, s, v.kind, p)
	b.requestAndAwait(o, added, b.remove, isDeleted)
}

// measureIdle records the writes and the CPU time of the operator while no object changes.
func (b *bench) measureIdle(what string, s side, k kind, p *process) {
	before, written, began := b.awaitIdle(p), b.patches(k), time.Now()
	b.sleepFor(b.idle)
	after, took := b.send(p, doStats), time.Since(began)
	b.report.add(what, "writes", s, float64(b.patches(k)-written), exactly(0))
	b.report.add(what, "CPU ms per second", s, milliseconds(after.CPU-before.CPU)/took.Seconds(), below(5))
}

// sleepFor waits for the duration or until the test ends.
func (b *bench) sleepFor(d time.Duration) {
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	<-ctx.Done()
}

// milliseconds converts d without rounding.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// percentile returns the value below which the given percentage of the values lies. values must not be empty.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)*percent/100, len(sorted)-1)]
}
