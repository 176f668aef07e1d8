package bench

import (
	"fmt"
	"slices"
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// accompaniment returns the operator with daemons or timers, and the same without.
func (b *bench) accompaniment(what background) (sides []side, roles map[side]role) {
	sides = []side{with, without}
	if b.round%2 == 1 {
		slices.Reverse(sides)
	}
	plain := variant{kind: gadgets, handlers: 1}.role(library, "")
	accompanied := plain
	accompanied.Background = what
	if what != daemon {
		accompanied.Interval = b.interval
	}
	return sides, map[side]role{with: accompanied, without: plain}
}

// timers measures handled objects with one timer each, which changes nothing: single changes while the timers start,
// then an interval of the timers alone.
func (b *bench) timers() {
	what := fmt.Sprintf("%d timers, each %s", b.standing, b.interval)
	sides, roles := b.accompaniment(idler)
	stocks, operators := map[side]stock{}, map[side]*process{}
	for _, s := range sides {
		stocks[s] = b.stocked(roles[s], b.standing)
	}
	var lanes []*lane
	for _, s := range sides {
		p := b.settled(roles[s], stocks[s], b.standing, "timers-"+string(s))
		defer b.stop(p)
		operators[s] = p
		fresh := gadgets.object(stocks[s].namespace, fmt.Sprintf("fresh-%d", b.round))
		o := b.observe(gadgets, stocks[s].namespace, fresh.GetName())
		defer o.stop()
		lanes = append(lanes, b.opened(s, library.handledAt, fresh, o))
	}
	b.takeTurns(lanes, "one change beside "+what, 2)
	for _, l := range lanes {
		b.storm(l.o, []v1.Object{l.obj}, b.remove, gone)
	}
	b.punctuality(what, operators)
	for _, s := range sides {
		result := b.order(operators[s], doCollect)
		over := (float64(result.Heap) - float64(stocks[s].bare)) / float64(b.standing)
		b.report.add(what, "bytes per object over the informer", s, over, below(2048))
		b.report.add(what, "goroutines", s, float64(result.Goroutines), open)
	}
}

// punctuality measures the lateness of timers, and their cost.
func (b *bench) punctuality(what string, operators map[side]*process) {
	b.t.Helper()
	before, written, began := map[side]stats{}, b.patches(gadgets), time.Now()
	for s, p := range operators {
		before[s] = b.order(p, doRecall)
	}
	b.sleepFor(b.interval)
	took, writes := time.Since(began), b.patches(gadgets)-written
	after := map[side]stats{}
	for s, p := range operators {
		after[s] = b.order(p, doRecall)
		b.report.add(what, "CPU seconds per second", s, (after[s].CPU-before[s].CPU).Seconds()/took.Seconds(), below(1))
	}
	was, is := before[with], after[with]
	calls := float64(is.Calls - was.Calls)
	if len(was.Noted) == 0 || len(is.Noted) == 0 || calls == 0 {
		b.t.Fatalf("there were %d calls of timers, and then %d: they should go on", was.Calls, is.Calls-was.Calls)
	}
	b.report.add(what, "calls per second", with, calls/took.Seconds(), open)
	b.report.add(what, "writes per call", with, float64(writes)/calls, exactly(0))
	b.report.add(what, "late ms, p50", with, percentile(is.Noted, 50), below(1000))
	b.report.add(what, "late ms, p99", with, percentile(is.Noted, 99), below(1000))
	b.report.add(what, "late ms at the start, beside changes, p99", with, percentile(was.Noted, 99), below(1000))
	b.report.add(what, "% late by more than 1 s, by the metric", with, 100*float64(is.Late)/float64(is.Calls), below(1))
}

// writing measures timers that change the status of their objects with some calls each.
func (b *bench) writing() {
	const what = "timers that change the status"
	namespace := b.namespace()
	objects := widgets.objects(namespace, "object", b.objects)
	o := b.observe(widgets, namespace, "")
	defer o.stop()
	r := variant{kind: widgets, handlers: 1}.role(library, namespace)
	r.Background, r.Interval = idler, time.Hour
	p := b.begin(r, "writing-before")
	b.storm(o, objects, b.create, library.handledAt(1))
	b.awaitIdle(p)
	b.stop(p)

	r.Background, r.Interval = counter, 100*time.Millisecond
	written := b.patches(widgets)
	p = b.begin(r, "writing")
	_, err := o.each(b.t.Context(), objects, func(s sight) bool {
		_, status := s.obj.Content()
		return status.Size == enough
	})
	b.ok(err)
	b.awaitIdle(p)
	calls := len(objects) * (enough - 1)
	b.report.add(what, "writes per call", with, float64(b.patches(widgets)-written)/float64(calls), exactly(1))
	b.storm(o, objects, b.remove, gone)
	b.stop(p)
}
