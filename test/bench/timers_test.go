package bench

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// backgroundRoles returns the operator with timers or daemons and the same operator without them, and the order in which
// to run them.
func (b *bench) backgroundRoles(handler background) (sides []side, roles map[side]role) {
	sides = []side{with, without}
	if b.round%2 == 1 {
		slices.Reverse(sides)
	}
	withoutBackground := variant{kind: gadgets, handlers: 1}.role(library, "")
	withBackground := withoutBackground
	withBackground.Background = handler
	if handler != daemon {
		withBackground.Interval = b.interval
	}
	return sides, map[side]role{with: withBackground, without: withoutBackground}
}

// measureTimers measures handled objects with one timer each. The timers change nothing. It first measures single changes
// of another object while the timers start, and then one interval in which only the timers are called.
func (b *bench) measureTimers() {
	what := fmt.Sprintf("%d timers, each %s", b.standing, b.interval)
	sides, roles := b.backgroundRoles(idleTimer)
	sets, operators := map[side]objectSet{}, map[side]*process{}
	for _, s := range sides {
		sets[s] = b.handledObjects(roles[s], b.standing)
	}
	var targets []*target
	for _, s := range sides {
		p := b.startIdle(roles[s], sets[s], b.standing, "timers-"+string(s))
		defer b.stop(p)
		operators[s] = p
		newObject := gadgets.object(sets[s].namespace, fmt.Sprintf("new-%d", b.round))
		o := b.observe(gadgets, sets[s].namespace, newObject.GetName())
		defer o.stop()
		targets = append(targets, b.newTarget(s, library.handledAt, newObject, o))
	}
	b.measureChanges(targets, "one change beside "+what, 2)
	for _, l := range targets {
		b.requestAndAwait(l.o, []v1.Object{l.obj}, b.remove, isDeleted)
	}
	b.measureDrift(what, operators)
	for _, s := range sides {
		result := b.send(operators[s], doCollect)
		perObject := (float64(result.Heap) - float64(sets[s].bare)) / float64(b.standing)
		b.report.add(what, "bytes per object over the informer", s, perObject, below(2048))
		b.report.add(what, "goroutines", s, float64(result.Goroutines), noBudget)
	}
}

// measureDrift measures one interval of the timers: their lateness, CPU time and writes.
func (b *bench) measureDrift(what string, operators map[side]*process) {
	b.t.Helper()
	before, written, began := map[side]stats{}, b.patches(gadgets), time.Now()
	for s, p := range operators {
		before[s] = b.send(p, doTake)
	}
	b.sleepFor(b.interval)
	took, writes := time.Since(began), b.patches(gadgets)-written
	after := map[side]stats{}
	for s, p := range operators {
		after[s] = b.send(p, doTake)
		b.report.add(what, "CPU seconds per second", s, (after[s].CPU-before[s].CPU).Seconds()/took.Seconds(), below(1))
	}
	first, last := before[with], after[with]
	calls := float64(last.Calls - first.Calls)
	if len(first.Latencies) == 0 || len(last.Latencies) == 0 || calls == 0 {
		b.t.Fatalf("timer calls before the interval = %d, in the interval = %d, want more than 0", first.Calls, last.Calls-first.Calls)
	}
	b.report.add(what, "calls per second", with, calls/took.Seconds(), noBudget)
	b.report.add(what, "writes per call", with, float64(writes)/calls, exactly(0))
	b.report.add(what, "late ms, p50", with, percentile(last.Latencies, 50), below(1000))
	b.report.add(what, "late ms, p99", with, percentile(last.Latencies, 99), below(1000))
	b.report.add(what, "late ms at the start, beside changes, p99", with, percentile(first.Latencies, 99), below(1000))
	b.report.add(what, "% late by more than 1 s, by the metric", with, 100*float64(last.Late)/float64(last.Calls), below(1))
}

// measureWritingTimers counts the writes of timers that change the status of their objects.
func (b *bench) measureWritingTimers() {
	const what = "timers that change the status"
	namespace := b.namespace()
	objects := widgets.objects(namespace, "object", b.objects)
	o := b.observe(widgets, namespace, "")
	defer o.stop()
	r := variant{kind: widgets, handlers: 1}.role(library, namespace)
	r.Background, r.Interval = idleTimer, time.Hour
	p := b.startSynced(r, "writing-before")
	b.requestAndAwait(o, objects, b.create, library.handledAt(1))
	b.awaitIdle(p)
	b.stop(p)

	r.Background, r.Interval = countingTimer, 100*time.Millisecond
	written := b.patches(widgets)
	p = b.startSynced(r, "writing")
	_, err := o.each(b.t.Context(), objects, func(s event) bool {
		_, status := s.obj.Content()
		return status.Size == counterLimit
	})
	b.must(err)
	b.awaitIdle(p)
	calls := len(objects) * (counterLimit - 1)
	b.report.add(what, "writes per call", with, float64(b.patches(widgets)-written)/float64(calls), exactly(1))
	b.requestAndAwait(o, objects, b.remove, isDeleted)
	b.stop(p)
}
