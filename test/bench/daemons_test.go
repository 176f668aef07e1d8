package bench

import (
	"fmt"
	"slices"
	"time"
)

// measureDaemons measures handled objects with one daemon each. It restarts the operator and then deletes the objects.
func (b *bench) measureDaemons() {
	what := fmt.Sprintf("%d daemons", b.daemons)
	sides, roles := b.backgroundRoles(daemon)
	result, sets := map[side]stats{}, map[side]objectSet{}
	for _, s := range sides {
		if s == with {
			sets[s] = b.createHandled(roles[s], b.daemons) // deleteAll deletes these objects, so they cannot be reused
		} else {
			sets[s] = b.handledObjects(roles[s], b.daemons)
		}
		p := b.startIdle(roles[s], sets[s], b.daemons, "daemons-"+string(s))
		if s == with {
			b.awaitDaemons(p)
		}
		result[s] = b.send(p, doCollect)
		perObject := (float64(result[s].Heap) - float64(sets[s].bare)) / float64(b.daemons)
		b.report.add(what, "bytes per object over the informer", s, perObject, noBudget)
		b.report.add(what, "bytes of stacks per object", s, float64(result[s].Stack)/float64(b.daemons), noBudget)
		b.report.add(what, "goroutines", s, float64(result[s].Goroutines), noBudget)
		if s == with {
			b.shutDown(what, p)
		}
		b.stop(p)
	}
	b.deleteAll(what, roles[with], sets[with])
}

// awaitDaemons waits until the daemons of all objects are running.
func (b *bench) awaitDaemons(p *process) {
	b.t.Helper()
	b.poll(pollInterval, func() bool { return b.send(p, doStats).Running == int64(b.daemons) })
}

// shutDown stops the manager. It records the time until all daemons are cancelled and the time until the manager
// returns.
func (b *bench) shutDown(what string, p *process) {
	b.t.Helper()
	began := time.Now()
	b.send(p, doStop)
	took := time.Since(began)
	b.report.add(what, "shutdown: ms until all are cancelled", with, slices.Max(b.allCancelled(p).Latencies), noBudget)
	b.report.add(what, "shutdown: ms until the manager returns", with, milliseconds(took), noBudget)
}

// deleteAll deletes all objects of the set. It records the cancellation of their daemons and the writes of the operator.
func (b *bench) deleteAll(what string, r role, set objectSet) {
	b.t.Helper()
	p := b.startIdle(r, set, b.daemons, "daemons-deletion")
	defer b.stop(p)
	b.awaitDaemons(p)
	o := b.observe(gadgets, set.namespace, "")
	defer o.stop()
	objects := append(gadgets.objects(set.namespace, "object", b.daemons-1), gadgets.object(set.namespace, "pattern-0"))
	written, began := b.patches(gadgets), time.Now()
	took := b.requestAndAwait(o, objects, b.remove, isDeleted)
	result := b.allCancelled(p)
	b.report.add(what, "deletion: ms from seen to cancelled, p50", with, percentile(result.Latencies, 50), below(100))
	b.report.add(what, "deletion: ms from seen to cancelled, p99", with, percentile(result.Latencies, 99), below(100))
	b.report.add(what, "deletion: ms from first request to all cancelled", with, milliseconds(result.Last.Sub(began)), noBudget)
	b.report.add(what, "deletion: ms from the first request until all are gone", with, milliseconds(took), noBudget)
	b.report.add(what, "deletion: writes per object", with, float64(b.patches(gadgets)-written)/float64(b.daemons), exactly(1))
}

// allCancelled returns the recorded cancellations. It fails the test if any daemon was not cancelled.
func (b *bench) allCancelled(p *process) stats {
	b.t.Helper()
	result := b.send(p, doTake)
	if len(result.Latencies) != b.daemons {
		b.t.Fatalf("number of cancelled daemons = %d, want %d", len(result.Latencies), b.daemons)
	}
	return result
}
