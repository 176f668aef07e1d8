package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/kopf-runtime/kopf-runtime/test/bench/api/v1"
)

// scenario is one run of the operators of both sides in each round. Its name selects it with -only.
type scenario struct {
	name string
	run  func(*bench, side)
}

// scenarios returns the scenarios that -only selects. Without -measure, there are fewer variants, each with one handler.
// With several handlers, a slow operator may write a checkpoint between them, so the number of writes would vary.
func scenarios(s sizes) (selected []scenario) {
	add := func(name string, run func(*bench, side)) {
		if s.only.MatchString(name) {
			selected = append(selected, scenario{name, run})
		}
	}
	simple, complete := variant{Handlers: 1}, variant{Handlers: 1, Status: true, Finalizer: true}
	lifecycles, backlogs := []variant{
		simple,
		{Handlers: 1, Finalizer: true},
		{Handlers: 1, Status: true},
		complete,
		{Handlers: 3},
		{Handlers: 3, Status: true, Finalizer: true},
		{Handlers: 1, Unstructured: true},
		{Handlers: 1, Status: true, Finalizer: true, Unstructured: true},
	}, []variant{simple, {Handlers: 1, Unstructured: true}}
	if !*measure {
		lifecycles = []variant{simple, {Handlers: 1, Unstructured: true}, complete}
		backlogs = backlogs[:1]
	}
	for _, v := range lifecycles {
		add("lifecycle"+v.String(), func(b *bench, s side) { b.measureLifecycle(v, s) })
	}
	for _, v := range backlogs {
		add("backlog"+v.String(), func(b *bench, s side) { b.measureBacklog(v, s) })
	}
	for _, v := range []variant{simple, complete} {
		add("latency"+v.String(), func(b *bench, s side) { b.measureLatency(v, s) })
	}
	add("restart", func(b *bench, s side) { b.measureRestart("restart", simple, b.standing, s) })
	add("preview", func(b *bench, s side) { b.measurePreview(simple, s) })
	for _, n := range s.plotted {
		add(fmt.Sprint("size ", n), func(b *bench, s side) { b.measureSize(n, s) })
	}
	for _, t := range s.timers {
		add("timers "+t.interval.String(), func(b *bench, s side) { b.measureTimers(t, s) })
	}
	return selected
}

// variant is a configuration of the operators of both sides.
type variant struct {
	Status, Finalizer, Unstructured bool

	Handlers int
	Interval time.Duration // each object has a timer with this interval; zero: no timers
}

// String returns a suffix for the name of a scenario.
func (v variant) String() string {
	var text strings.Builder
	if v.Unstructured {
		text.WriteString(" unstructured")
	}
	if v.Status {
		text.WriteString(" status")
	}
	if v.Finalizer {
		text.WriteString(" finalizer")
	}
	if v.Handlers > 1 {
		fmt.Fprintf(&text, " %d handlers", v.Handlers)
	}
	return text.String()
}

func (v variant) kind() kind {
	if v.Status {
		return widgets
	}
	return gadgets
}

// writes returns the documented number of writes for a change of one object.
func (v variant) writes() int {
	if v.Status {
		return 2
	}
	return 1
}

// warm is the number of objects that the operator handles before the measurement, to open its connections and fill its
// caches.
const warm = 10

// measureLifecycle measures the creation and the change of b.objects objects while an operator runs, and the deletion if
// there is a finalizer.
func (b *bench) measureLifecycle(v variant, s side) {
	namespace := b.namespace()
	p := b.startSynced(role{variant: v, Side: s, Namespace: namespace}, "lifecycle"+v.String())
	defer b.clear(v.kind(), namespace)
	defer b.stop(p)
	o := b.observe(v.kind(), namespace)
	defer o.stop()
	b.awaitAll(o, v.kind().objects(namespace, "warm", warm), b.create, s.handledAt(1))

	objects := v.kind().objects(namespace, "object", b.objects)
	creationWrites := v.writes()
	if v.Finalizer {
		creationWrites++
	}
	b.measure("create"+v.String(), s, p, b.objects, creationWrites, func() time.Duration {
		return b.awaitAll(o, objects, b.create, s.handledAt(1))
	})
	b.measure("update"+v.String(), s, p, b.objects, v.writes(), func() time.Duration {
		return b.awaitAll(o, objects, b.resize(2), s.handledAt(2))
	})
	if v.Finalizer {
		b.measure("delete"+v.String(), s, p, b.objects, 1, func() time.Duration {
			return b.awaitAll(o, objects, b.remove, isDeleted)
		})
	}
}

// measureBacklog measures the start of an operator when b.objects objects exist and none is handled.
func (b *bench) measureBacklog(v variant, s side) {
	namespace := b.namespace()
	defer b.clear(v.kind(), namespace)
	o := b.observe(v.kind(), namespace)
	defer o.stop()
	objects := v.kind().objects(namespace, "object", b.objects)
	b.awaitAll(o, objects, b.create, func(event) bool { return true })

	p := b.startProcess(role{variant: v, Side: s, Namespace: namespace}, "backlog"+v.String())
	defer b.stop(p)
	b.measure("backlog"+v.String(), s, p, b.objects, v.writes(), func() time.Duration {
		b.send(p, doStart)
		return b.awaitAll(o, objects, nil, s.handledAt(1))
	})
}

// rates are the numbers of changes per second in the latency scenarios.
var rates = []int{20, 100}

// measureLatency measures changes of different objects at a low and at a high rate: the time from the event of a change
// to the event of the handled object. The changes at each rate take equally long.
func (b *bench) measureLatency(v variant, s side) {
	namespace := b.namespace()
	p := b.startSynced(role{variant: v, Side: s, Namespace: namespace}, "latency"+v.String())
	defer b.stop(p)
	o := b.observe(v.kind(), namespace)
	defer o.stop()
	changes := func(perSecond int) int { return int(b.latency.Seconds() * float64(perSecond)) }
	all := v.kind().objects(namespace, "object", changes(slices.Max(rates)))
	b.awaitAll(o, all, b.create, s.handledAt(1))

	for i, perSecond := range rates {
		row, size, objects := fmt.Sprintf("%d changes a second%s", perSecond, v), i+2, all[:changes(perSecond)]
		b.measure(row, s, p, len(objects), v.writes(), func() time.Duration {
			changedAt, latencies := map[string]time.Time{}, map[string]float64{}
			b.await(o, func(ctx context.Context) error { return b.sendAtRate(ctx, objects, perSecond, b.resize(size)) }, func(e event) bool {
				name := e.obj.GetName()
				if spec, _ := e.obj.Content(); spec.Size != size {
					return false
				}
				if _, known := changedAt[name]; !known {
					changedAt[name] = e.at
				}
				if _, known := latencies[name]; !known && s.handled(e.obj) {
					latencies[name] = milliseconds(e.at.Sub(changedAt[name]))
				}
				return len(latencies) == len(objects)
			})
			values := slices.Collect(maps.Values(latencies))
			b.addFigure(row, "latency ms, p50", s, percentile(values, 50))
			b.addFigure(row, "latency ms, p99", s, percentile(values, 99))
			return 0
		})
	}
}

// measureRestart measures the start of an operator when all objects are already handled, and its memory.
func (b *bench) measureRestart(row string, v variant, n int, s side) {
	r := role{variant: v, Side: s}
	set := b.handledObjects(r, n)
	r.Namespace = set.namespace
	p := b.startProcess(r, row)
	defer b.stop(p)
	b.measure(row, s, p, n, 0, func() time.Duration {
		began := time.Now()
		b.send(p, doStart)
		if b.lean && s == library { // objects at rest are not reconciled
			b.send(p, doSync)
		} else {
			b.awaitReconciles(p, n)
		}
		return time.Since(began)
	})
	b.addMemory(row, s, p, set, n)
}

// measurePreview measures a preview of handled objects. Only the library has one.
func (b *bench) measurePreview(v variant, s side) {
	if s != library {
		return
	}
	const row = "preview"
	r := role{variant: v, Side: s}
	set := b.handledObjects(r, b.standing)
	r.Namespace = set.namespace
	p := b.startProcess(r, row)
	defer b.stop(p)
	began, before := time.Now(), b.send(p, doStats)
	after := b.send(p, doPreview)
	b.addFigure(row, "seconds", s, time.Since(began).Seconds())
	b.addFigure(row, "CPU seconds", s, (after.CPU - before.CPU).Seconds())
	b.addFigure(row, "largest resident memory, MiB", s, float64(after.Peak)/(1<<20))
}

// measureSize measures the creation of objects while an operator runs, and its restart. The observer of the benchmark needs the CPU, too, so
// only runs of the same size can be compared by time.
func (b *bench) measureSize(n int, s side) {
	simple := variant{Handlers: 1}
	namespace := b.namespace()
	p := b.startSynced(role{variant: simple, Side: s, Namespace: namespace}, fmt.Sprint("size ", n))
	o := b.observe(gadgets, namespace)
	b.awaitAll(o, gadgets.objects(namespace, "warm", warm), b.create, s.handledAt(1))
	b.measure(plotRow(plotCreate, n), s, p, n, simple.writes(), func() time.Duration {
		return b.awaitAll(o, gadgets.objects(namespace, "object", n), b.create, s.handledAt(1))
	})
	o.stop()
	b.stop(p)
	b.measureRestart(plotRow(plotRestart, n), simple, n, s)
}

// addMemory adds the heap of the operator for each object. The heap of an operator without objects does not count.
func (b *bench) addMemory(row string, s side, p *process, set objectSet, n int) {
	b.addFigure(row, "resident memory, MiB", s, float64(b.send(p, doStats).Resident)/(1<<20))
	if s == python {
		return // its heap cannot be compared
	}
	grown := float64(b.send(p, doCollect).Heap) - float64(set.heap)
	b.addFigure(row, "heap bytes per object", s, grown/float64(n))
}

// measureTimers measures handled objects with a timer each. The timers change nothing. The plain reconciler uses
// RequeueAfter.
func (b *bench) measureTimers(t timers, s side) {
	row := fmt.Sprintf("%d timers, each %s", t.objects, t.interval)
	r := role{variant: variant{Handlers: 1, Finalizer: true, Interval: t.interval}, Side: s}
	set := b.handledObjects(r, t.objects)
	r.Namespace = set.namespace
	p := b.startSynced(r, "timers "+t.interval.String())
	defer b.stop(p)
	b.awaitReconciles(p, t.objects)
	b.sleepFor(b.window / 5) // garbage of the start is collected

	before, began := b.send(p, doTake), time.Now()
	b.sleepFor(b.window)
	after, took := b.send(p, doTake), time.Since(began)
	if len(after.Lateness) == 0 {
		b.t.Fatalf("%s, %s: number of calls = 0, want more", row, s)
	}
	b.addSample(row, 0, s, sample{
		objects: len(after.Lateness), took: took, cpu: after.CPU - before.CPU,
		writes: after.Writes - before.Writes, reconciles: after.Reconciles - before.Reconciles,
	})
	b.addFigure(row, "CPU cores", s, (after.CPU-before.CPU).Seconds()/took.Seconds())
	b.addFigure(row, "late ms, p50", s, percentile(after.Lateness, 50))
	b.addFigure(row, "late ms, p99", s, percentile(after.Lateness, 99))
	b.addMemory(row, s, p, set, t.objects)
}

// objectSetKey identifies an objectSet.
type objectSetKey struct {
	role
	objects int
}

// objectSet is a namespace with objects that are already handled when an operator starts.
type objectSet struct {
	namespace string
	heap      uint64 // heap of an operator of the same role without objects, in bytes
}

// handledObjects returns n objects that an operator of the role recognizes as handled. An operator handles the first
// object. The others are copies of its annotation, finalizers and status. Later rounds use the same objects.
func (b *bench) handledObjects(r role, n int) objectSet {
	b.t.Helper()
	key := objectSetKey{r, n}
	if set, ok := b.objectSets[key]; ok {
		return set
	}
	k, set := r.kind(), objectSet{namespace: b.namespace()}
	r.Namespace = set.namespace
	p := b.startSynced(r, "objectset")
	b.awaitIdle(p)
	set.heap = b.send(p, doCollect).Heap
	o := b.observe(k, set.namespace)
	defer o.stop()
	var pattern v1.Object
	b.awaitAll(o, k.objects(set.namespace, "pattern", 1), b.create, func(e event) bool {
		pattern = e.obj
		return r.Side.handledAt(1)(e)
	})
	b.stop(p)
	objects := k.objects(set.namespace, "object", n-1)
	for _, obj := range objects {
		annotation := r.Side.annotation()
		obj.SetAnnotations(map[string]string{annotation: pattern.GetAnnotations()[annotation]})
		obj.SetFinalizers(pattern.GetFinalizers())
		_, status := obj.Content()
		_, handledStatus := pattern.Content()
		*status = *handledStatus
	}
	b.must(b.sendAll(b.t.Context(), objects, b.create))
	b.objectSets[key] = set
	return set
}

// awaitReconciles waits until the operator has completed n reconciles.
func (b *bench) awaitReconciles(p *process, n int) {
	b.t.Helper()
	b.poll(20*time.Millisecond, func() bool { return b.send(p, doStats).Reconciles >= int64(n) })
}
