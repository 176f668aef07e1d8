package rollout

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/revision"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// A phase says where an object is in the rollout.
type phase int

const (
	waiting  phase = iota
	released       // it may begin, but its annotation doesn't say so yet
	running
	late // unfinished past its deadline
	done
)

// object is an object with newer revisions, or one that was handled for them.
type object struct {
	key         types.NamespacedName
	phase       phase
	hash        uint64
	isNext      bool      // a user has asked for it
	failed      time.Time // when a handler has failed last; zero if none has
	schema      bool      // the schema has changed
	pausedUntil time.Time // when the operator was paused last
	begun       time.Time // when it was released, or its handlers were allowed to begin
	ended       time.Time // when it was finished, or late
	index       int       // in the queue, if it is waiting
}

// group is the rollout of one kind. It is a value in memory: all inputs are arguments.
type group struct {
	options   rollout.Options
	revisions string

	objects map[types.NamespacedName]*object
	queue   queue                            // of the waiting objects
	open    map[types.NamespacedName]*object // released or running
	counts  [done + 1]int
	isKnown bool // all objects of the first list are known

	begun     time.Time // zero unless objects are waiting or unfinished
	hasSoaked bool
	soaked    soak // what soakedAt is for
	soakedAt  time.Time
	late      int              // late since the rollout has begun
	unsaved   bool             // the rollout has halted itself, and the ConfigMap doesn't say so yet
	ended     int              // late or done since the rollout has begun
	failed    int              // the failed ones among them
	tried     int              // late or done since the rollout has begun or was resumed
	failures  int              // the failed ones among them
	last      rollout.Progress // of the rollout that is over

	shard    string
	stored   rollout.State // what the ConfigMap says
	control  rollout.State // what counts of that, with a halt that isn't saved yet
	isLoaded bool          // the ConfigMap was read
}

func newGroup(options rollout.Options, revisions, shard string) *group {
	return &group{
		options: options, revisions: revisions, shard: shard, objects: map[types.NamespacedName]*object{}, open: map[types.NamespacedName]*object{},
		control: rollout.State{Revisions: revisions},
	}
}

// queue sorts the waiting objects: first those that users have asked for, then by hash.
type queue []*object

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if q[i].isNext != q[j].isNext {
		return q[i].isNext
	}
	return q[i].hash < q[j].hash
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i]; q[i].index, q[j].index = i, j }
func (q *queue) Push(x any) {
	one := x.(*object)
	one.index = len(*q)
	*q = append(*q, one)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	one := (*q)[last]
	*q = (*q)[:last]
	return one
}

// hashOf returns the place of an object in the order of the rollout.
func hashOf(uid types.UID) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(uid)) // never fails
	h := sum.Sum64()
	h ^= h >> 33 // uids of one series differ only in their last characters, which fnv hardly spreads to the first bits
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}

// observe notes where an object stands. It reports whether anything has changed.
func (g *group) observe(key types.NamespacedName, s revision.Standing) (changed bool) {
	optOut := ""
	if g.options.OptOut != "" {
		optOut = s.Annotations[g.options.OptOut]
	}
	next := object{key: key, hash: hashOf(s.UID), isNext: optOut == "now", schema: s.BySchema}
	before := g.objects[key]
	hasPlace := before != nil && before.hash == next.hash && (before.phase == released || before.phase == late)
	switch isOut := optOut != "" && optOut != "false" && optOut != "now"; {
	case s.Due && (isOut || s.Busy && s.Entered.IsZero()):
		return g.forget(key)
	case s.Due && !s.Entered.IsZero():
		if next.phase, next.begun = running, s.Entered; hasPlace && before.phase == late && before.begun.Equal(next.begun) {
			return false
		}
	case s.Due && hasPlace:
		return false
	case s.Due:
		next.phase = waiting
	case s.Ended.IsZero():
		return g.forget(key)
	default:
		next.phase, next.ended, next.failed = done, s.Ended, s.Failed
	}
	if before != nil && before.same(next) {
		return false
	}
	g.forget(key)
	g.add(&next)
	return true
}

func (o *object) same(other object) bool {
	return o.phase == other.phase && o.hash == other.hash && o.isNext == other.isNext && o.schema == other.schema &&
		o.begun.Equal(other.begun) && o.ended.Equal(other.ended) && o.failed.Equal(other.failed)
}

func (g *group) add(one *object) {
	g.objects[one.key] = one
	g.counts[one.phase]++
	switch one.phase {
	case waiting:
		heap.Push(&g.queue, one)
	case released, running:
		g.open[one.key] = one
	case late, done:
		g.count(one, 1)
	}
}

// forget removes an object from the rollout. It reports whether the object was in it.
func (g *group) forget(key types.NamespacedName) bool {
	one := g.objects[key]
	if one == nil {
		return false
	}
	delete(g.objects, key)
	g.counts[one.phase]--
	switch one.phase {
	case waiting:
		heap.Remove(&g.queue, one.index)
	case released, running:
		delete(g.open, key)
	case late, done:
		g.count(one, -1)
	}
	return true
}

// count adds an object to the ended ones, unless that was in an earlier rollout.
func (g *group) count(one *object, by int) {
	if g.begun.IsZero() || one.ended.Before(g.begun) {
		return
	}
	g.ended += by
	if one.phase == late {
		g.late += by
	}
	hasFailed := !one.failed.IsZero() && !one.failed.Before(g.begun)
	if hasFailed {
		g.failed += by
	}
	if resumed := g.control.Resumed; resumed == nil || one.ended.After(*resumed) {
		if g.tried += by; hasFailed {
			g.failures += by
		}
	}
}

func (g *group) recount() {
	g.ended, g.late, g.failed, g.tried, g.failures = 0, 0, 0, 0, 0
	for _, one := range g.objects {
		if one.phase == late || one.phase == done {
			g.count(one, 1)
		}
	}
}

// setControl takes over what the ConfigMap says. What it says about other revisions doesn't count.
func (g *group) setControl(s rollout.State) {
	g.isLoaded, g.stored = true, s
	if s.Revisions != g.revisions {
		s = rollout.State{Revisions: g.revisions}
	}
	if g.unsaved && s.Halted == nil && isSameTime(s.Resumed, g.control.Resumed) {
		s.Halted = g.control.Halted
	}
	g.control = s
	g.recount()
}

// isForeign reports whether the ConfigMap is about other revisions.
func (g *group) isForeign() bool {
	s := g.stored
	return s.Revisions != g.revisions && (s.Revisions != "" || s.Halted != nil || s.Resume || len(s.Progress) > 0)
}

func isSameTime(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}

// isActive reports whether objects are waiting or unfinished.
func (g *group) isActive() bool { return g.counts[waiting]+g.counts[late]+len(g.open) > 0 }

// begin notes that the rollout begins, or goes on after a restart, and when it is over.
func (g *group) begin(now time.Time) {
	switch stored := g.control.Progress[g.shard]; {
	case !g.isActive() && !g.begun.IsZero():
		g.last, g.begun = g.progress(), time.Time{}
		g.control.Halted, g.control.Resumed, g.unsaved = nil, nil, false
		g.recount()
		return
	case !g.isActive():
		g.control.Halted, g.control.Resumed = nil, nil // there is nothing to halt
		return
	case !g.begun.IsZero():
		return
	case stored.Waiting+stored.Running > 0:
		g.begun = stored.Begun
	default:
		g.begun = now.UTC().Truncate(time.Second)
	}
	g.hasSoaked = false
	g.recount()
}

// A decision is what follows from the state of a group.
type decision struct {
	release []types.NamespacedName // objects that may begin now
	halt    string                 // why the rollout halts; empty if it doesn't halt now
	again   time.Time              // when to decide again even if nothing happens; zero if never
}

// decide decides which objects begin now. Where isPaused returns true, nothing happens.
func (g *group) decide(now time.Time, isPaused func(namespace string) bool) (d decision) {
	if !g.isKnown || !g.isLoaded {
		return d
	}
	if g.begin(now); !g.isActive() {
		return d
	}
	for _, one := range g.open {
		if isPaused(one.key.Namespace) {
			one.pausedUntil = now
			continue
		}
		deadline := one.begun.Add(g.options.Deadline)
		if !one.pausedUntil.IsZero() {
			deadline = one.pausedUntil.Add(g.options.Deadline)
		}
		if deadline.After(now) {
			d.wake(deadline)
			continue
		}
		g.forget(one.key)
		one.phase, one.ended, one.failed = late, deadline, deadline
		g.add(one)
	}
	if g.control.Halted == nil {
		if d.halt = g.tooManyFailures(); d.halt != "" {
			g.control.Halted = &rollout.Stop{At: now.UTC().Truncate(time.Second), By: "rollout", Message: d.halt}
			g.unsaved = true
		}
	}
	if g.control.Halted != nil || len(g.queue) == 0 {
		return d
	}
	if isOpen, until := g.options.Window.IsOpen(now); !isOpen {
		d.wake(until)
		return d
	}
	for len(g.queue) > 0 && len(g.open) < g.options.MaxParallel && !isPaused(g.queue[0].key.Namespace) {
		if next := g.queue[0]; !next.isNext {
			if until, isHeld := g.soaking(now); isHeld {
				d.wake(until)
				break
			}
		}
		one := heap.Pop(&g.queue).(*object)
		g.counts[waiting]--
		one.phase, one.begun = released, now
		g.add(one)
		d.release = append(d.release, one.key)
	}
	return d
}

func (d *decision) wake(at time.Time) {
	if !at.IsZero() && (d.again.IsZero() || at.Before(d.again)) {
		d.again = at
	}
}

// total returns how many objects are in the rollout.
func (g *group) total() int {
	return g.counts[waiting] + len(g.open) + g.counts[late] + g.ended - g.late
}

// canaries returns how many objects come first.
func (g *group) canaries() int {
	return max(1, int(math.Ceil(g.options.Canaries*float64(g.total()))))
}

// soaking reports whether the objects behind the canaries must wait, and until when. The time is zero while canaries are unfinished.
func (g *group) soaking(now time.Time) (until time.Time, isHeld bool) {
	canaries, tried := g.canaries(), g.ended
	switch {
	case g.hasSoaked, tried+len(g.open) < canaries:
		return time.Time{}, false
	case tried < canaries:
		return time.Time{}, true
	}
	if key := (soak{g.begun, canaries, tried}); g.soaked != key { // the search takes time
		ends := make([]time.Time, 0, tried)
		for _, one := range g.objects {
			if (one.phase == late || one.phase == done) && !one.ended.Before(g.begun) {
				ends = append(ends, one.ended)
			}
		}
		slices.SortFunc(ends, time.Time.Compare)
		g.soaked, g.soakedAt = key, ends[canaries-1].Add(g.options.Soak)
	}
	g.hasSoaked = !g.soakedAt.After(now)
	return g.soakedAt, !g.hasSoaked
}

// soak is what the end of the time to soak depends on.
type soak struct {
	begun           time.Time
	canaries, tried int
}

// tooManyFailures returns why the rollout must halt, or "".
func (g *group) tooManyFailures() string {
	of, what := g.canaries(), "canaries"
	if g.tried > of || g.control.Resumed != nil {
		of, what = max(g.tried, 1), "objects so far"
	}
	if float64(g.failures) <= g.options.HaltAt*float64(of) || g.failures < min(2, g.total()) {
		return ""
	}
	return fmt.Sprintf("%d of %d %s have failed", g.failures, of, what)
}

// check returns why an object must wait, or "".
func (g *group) check(key types.NamespacedName, now time.Time) (wait string) {
	one := g.objects[key]
	what := "the rollout of " + g.revisions
	if one != nil && one.schema || g.revisions == "" {
		what = "the rollout of a change of the schema"
	}
	progress := fmt.Sprintf("%s has reached %d of %d objects", what, g.total()-g.counts[waiting], g.total())
	switch {
	case one == nil:
		return "the object has opted out of " + what
	case one.phase != waiting:
		return ""
	case !g.isKnown:
		return what + " begins when all objects are known"
	case !g.isLoaded:
		return what + " begins when its ConfigMap has been read"
	case g.control.Halted != nil:
		return fmt.Sprintf("%s is halted by %s: %s", what, g.control.Halted.By, g.control.Halted.Message)
	}
	if isOpen, until := g.options.Window.IsOpen(now); !isOpen && !until.IsZero() {
		return progress + "; it goes on at " + until.Format(time.RFC3339)
	}
	if until, isHeld := g.soaking(now); isHeld && !until.IsZero() {
		return progress + "; after the canaries it goes on at " + until.Format(time.RFC3339)
	}
	return progress
}

// progress returns the numbers of objects. After the rollout, they are the last ones.
func (g *group) progress() rollout.Progress {
	switch stored := g.control.Progress[g.shard]; {
	case !g.begun.IsZero():
	case g.last.Total > 0:
		return g.last
	default:
		stored.Done, stored.Waiting, stored.Running, stored.At = stored.Done+stored.Waiting+stored.Running, 0, 0, time.Time{} // they have left since
		return stored
	}
	return rollout.Progress{
		Begun: g.begun, Total: g.total(), Waiting: g.counts[waiting], Running: len(g.open) + g.counts[late], Done: g.ended - g.late, Failed: g.failed,
	}
}
