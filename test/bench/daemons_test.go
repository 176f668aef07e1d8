package bench

import (
	"fmt"
	"slices"
	"time"
)

// accompanied measures handled objects with one daemon each: a restart of the operator, and their deletion.
func (b *bench) accompanied() {
	what := fmt.Sprintf("%d daemons", b.daemons)
	sides, roles := b.accompaniment(daemon)
	result, stocks := map[side]stats{}, map[side]stock{}
	for _, s := range sides {
		if s == with {
			stocks[s] = b.stockUp(roles[s], b.daemons) // these objects are deleted at the end
		} else {
			stocks[s] = b.stocked(roles[s], b.daemons)
		}
		p := b.settled(roles[s], stocks[s], b.daemons, "daemons-"+string(s))
		if s == with {
			b.awaitDaemons(p)
		}
		result[s] = b.order(p, doCollect)
		over := (float64(result[s].Heap) - float64(stocks[s].bare)) / float64(b.daemons)
		b.report.add(what, "bytes per object over the informer", s, over, open)
		b.report.add(what, "bytes of stacks per object", s, float64(result[s].Stack)/float64(b.daemons), open)
		b.report.add(what, "goroutines", s, float64(result[s].Goroutines), open)
		if s == with {
			b.shutDown(what, p)
		}
		b.stop(p)
	}
	b.deleteAll(what, roles[with], stocks[with])
}

func (b *bench) awaitDaemons(p *process) {
	b.t.Helper()
	b.poll(pollInterval, func() bool { return b.order(p, doStats).Running == int64(b.daemons) })
}

// shutDown returns the time from the stop of the manager until all daemons are cancelled, and until the manager has
// returned.
func (b *bench) shutDown(what string, p *process) {
	b.t.Helper()
	began := time.Now()
	b.order(p, doStop)
	took := time.Since(began)
	b.report.add(what, "shutdown: ms until all are cancelled", with, slices.Max(b.allCancelled(p).Noted), open)
	b.report.add(what, "shutdown: ms until the manager returns", with, milliseconds(took), open)
}

// deleteAll deletes all objects.
func (b *bench) deleteAll(what string, r role, made stock) {
	b.t.Helper()
	p := b.settled(r, made, b.daemons, "daemons-deletion")
	defer b.stop(p)
	b.awaitDaemons(p)
	o := b.observe(gadgets, made.namespace, "")
	defer o.stop()
	objects := append(gadgets.objects(made.namespace, "object", b.daemons-1), gadgets.object(made.namespace, "pattern-0"))
	written, began := b.patches(gadgets), time.Now()
	took := b.storm(o, objects, b.remove, gone)
	result := b.allCancelled(p)
	b.report.add(what, "deletion: ms from seen to cancelled, p50", with, percentile(result.Noted, 50), below(100))
	b.report.add(what, "deletion: ms from seen to cancelled, p99", with, percentile(result.Noted, 99), below(100))
	b.report.add(what, "deletion: ms from first request to all cancelled", with, milliseconds(result.Last.Sub(began)), open)
	b.report.add(what, "deletion: ms from the first request until all are gone", with, milliseconds(took), open)
	b.report.add(what, "deletion: writes per object", with, float64(b.patches(gadgets)-written)/float64(b.daemons), exactly(1))
}

func (b *bench) allCancelled(p *process) stats {
	b.t.Helper()
	result := b.order(p, doRecall)
	if len(result.Noted) != b.daemons {
		b.t.Fatalf("%d of %d daemons were cancelled", len(result.Noted), b.daemons)
	}
	return result
}
