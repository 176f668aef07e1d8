package simulation

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/sharding"
	v1 "github.com/kopf-runtime/kopf-runtime/test/e2e/api/v1"
)

var (
	shardSeeds = flag.Uint64("shards", 20, "number of simulations of several shards")
	shardFrom  = flag.Uint64("shards-from", 0, "seed of the first simulation of several shards")
	shardSeed  = flag.Int64("shard", -1, "repeat this simulation of several shards and show the log")
)

const (
	shardObjects = 5
	shardSteps   = 25
)

// TestShards_EachObjectHasOneOwner lets shards join, leave, freeze, lose their connection, crash and return with the same name, while users change and delete
// objects. No object is handled by two processes at a time, no process writes an object of another one, and no change is lost.
func TestShards_EachObjectHasOneOwner(t *testing.T) {
	all := []uint64{}
	for seed := range seeds(*shardSeeds) {
		all = append(all, *shardFrom+seed)
	}
	if *shardSeed >= 0 {
		all = []uint64{uint64(*shardSeed)}
	}
	for _, seed := range all {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newShardWorld(t, seed)
				w.gentle = seed%2 == 0
				w.simulate()
				if len(w.wrong) > 0 || *shardSeed >= 0 {
					t.Log(strings.Join(w.lines, "\n"))
				}
				for _, violation := range w.wrong {
					t.Errorf("%s (to repeat: -run %s -shard=%d)", violation, "TestShards_EachObjectHasOneOwner", seed)
				}
			})
		})
	}
}

func (w *shardWorld) simulate() {
	ctx, cancel := context.WithCancel(w.Context())
	sharding := make(chan struct{})
	go func() { defer close(sharding); w.sharder.Run(ctx, time.Second) }()
	defer func() { cancel(); <-sharding }()
	next := 0
	join := func() { w.start(fmt.Sprintf("shard-%d", next), w.skew()); next++ }
	for range 2 {
		join()
	}
	for range shardSteps {
		wait(time.Duration(w.random.Int64N(int64(15 * time.Second))))
		w.disturb(join)
		w.edit()
	}
	for _, p := range w.processes {
		p.setCut(false)
		p.setSilence(noSilence)
		p.thaw()
	}
	if len(w.running()) == 0 {
		join()
	}
	wait(5 * time.Minute)
	if len(w.running()) == 0 {
		join() // the last process had lost its Lease
		wait(time.Minute)
	}
	w.check()
	for _, p := range w.running() {
		p.stop()
	}
	for _, p := range w.processes {
		<-p.ended
		if p.err != nil && w.gentle {
			w.mu.Lock()
			w.violatef("%s has ended with an error: %v", p.name, p.err)
			w.mu.Unlock()
		}
	}
	wait(10 * time.Second) // daemons that have not ended in time
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.attempts) > 0 {
		w.violatef("%d attempts are left after the end", len(w.attempts))
	}
}

func (w *shardWorld) skew() time.Duration {
	if w.gentle {
		return 0
	}
	return time.Duration(w.random.Int64N(int64(30*time.Second))) - 5*time.Second
}

// disturb changes one process.
func (w *shardWorld) disturb(join func()) {
	running := w.running()
	if len(running) == 0 {
		join()
		return
	}
	p := running[w.random.IntN(len(running))]
	switch n := w.random.IntN(14); {
	case n < 2 && len(running) < 4:
		join()
	case n < 4 && len(running) > 1:
		w.logf("%s leaves", p.name)
		p.stop()
	case w.gentle:
	case n == 4:
		p.kill()
	case n == 5: // the kubelet restarts the container
		p.kill()
		w.start(p.name, w.skew())
	case n == 6:
		w.freeze(p, time.Duration(w.random.Int64N(int64(70*time.Second))))
	case n == 7:
		w.cut(p, time.Duration(w.random.Int64N(int64(40*time.Second))))
	case n == 8: // the node of a StatefulSet's pod is lost, and the pod is deleted by force
		p.setCut(true)
		w.start(p.name, w.skew())
	case n == 10: // the fence does not notice it
		w.freeze(p, time.Duration(w.random.Int64N(int64(5*time.Second))))
	case n == 11:
		w.silence(p, lostRequests, time.Duration(w.random.Int64N(int64(40*time.Second))))
	case n == 12:
		w.silence(p, lostResponses, time.Duration(w.random.Int64N(int64(40*time.Second))))
	case n == 13:
		w.silence(p, stuckRequests, time.Duration(w.random.Int64N(int64(40*time.Second))))
	case n == 9: // two replicas have one name by mistake
		w.start(p.name, w.skew())
	}
}

func (w *shardWorld) freeze(p *shardProcess, duration time.Duration) {
	if p.isFrozen() {
		return
	}
	p.freeze()
	go func() {
		wait(duration)
		p.thaw()
	}()
}

func (w *shardWorld) cut(p *shardProcess, duration time.Duration) {
	p.setCut(true)
	go func() {
		wait(duration)
		p.setCut(false)
	}()
}

func (w *shardWorld) silence(p *shardProcess, what silence, duration time.Duration) {
	p.setSilence(what)
	go func() {
		wait(duration)
		p.setSilence(noSilence)
	}()
}

// edit makes one change of a user.
func (w *shardWorld) edit() {
	obj := &v1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: widgetName(w.random.IntN(shardObjects))}}
	err := w.users.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)
	switch n := w.random.IntN(12); {
	case apierrors.IsNotFound(err):
		obj.Spec.Size = 1
		must(w.T, w.users.Create(w.Context(), obj))
	case err != nil:
		w.Fatal(err)
	case n == 0:
		must(w.T, client.IgnoreNotFound(w.users.Delete(w.Context(), obj)))
	case n < 8:
		must(w.T, client.IgnoreNotFound(w.users.Patch(w.Context(), obj, rawPatch(fmt.Sprintf(`{"spec":{"size":%d}}`, obj.Spec.Size+1)))))
	}
}

// check checks the state after the last disturbance.
func (w *shardWorld) check() {
	list := &v1.WidgetList{}
	must(w.T, w.users.List(w.Context(), list))
	w.mu.Lock()
	defer w.mu.Unlock()
	existing := map[string]bool{}
	for i := range list.Items {
		obj := &list.Items[i]
		uid, calls := string(obj.UID), w.handled[string(obj.UID)]
		existing[uid] = true
		if obj.DeletionTimestamp != nil {
			w.violatef("%s: its deletion does not end", uid)
		}
		if w.sizes[uid] != obj.Spec.Size {
			w.violatef("%s: the size %d is not handled: %q", uid, obj.Spec.Size, calls)
		}
		shard := obj.Labels[sharding.ShardLabel(ring)]
		daemons := 0
		for a := range w.attempts {
			if a.uid == uid && a.id == "daemon" {
				if daemons++; a.process.name != shard {
					w.violatef("%s: its daemon runs in %s, but the shard is %q", uid, a.process.name, shard)
				}
			}
		}
		if daemons != 1 {
			w.violatef("%s: %d daemons are running, want 1", uid, daemons)
		}
		if t := w.tenures[uid]; t != nil && t.moved && t.resumes != 1 && w.gentle {
			w.violatef("%s: it was resumed %d times by its last shard, want 1", uid, t.resumes)
		}
	}
	for uid, calls := range w.handled {
		if fault := firstFault(calls, !w.gentle); fault != "" {
			w.violatef("%s: %q does not follow what was handled before: %q", uid, fault, calls)
		}
		if deleted := calls[len(calls)-1] == "deleted"; deleted == existing[uid] {
			w.violatef("%s: the last call is %q, and the object exists: %t", uid, calls[len(calls)-1], existing[uid])
		}
	}
}

// startAll starts the sharder and some shards, and creates some objects. The returned function stops the sharder.
func (w *shardWorld) startAll(shards, objects int) (stopSharder func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.sharder.Run(ctx, time.Second) }()
	for i := range shards {
		w.start(fmt.Sprintf("shard-%d", i), 0)
	}
	for i := range objects {
		makeWidget(w.T, w.users, widgetName(i))
	}
	return func() { cancel(); <-ended }
}

// stopAll stops all shards, and waits some more time for daemons that have not ended in time.
func (w *shardWorld) stopAll(more time.Duration) {
	for _, p := range w.processes {
		p.stop()
	}
	for _, p := range w.processes {
		<-p.ended
	}
	wait(more)
}

// TestShards_ServeAgain checks that each object of a shard that has ended, or that does not renew its Lease, is served again within the lease duration, after
// which the other shards consider the shard dead, and two seconds.
func TestShards_ServeAgain(t *testing.T) {
	const limit = leaseDuration + 2*time.Second
	for name, end := range map[string]func(w *shardWorld, p *shardProcess){
		"killed":       func(_ *shardWorld, p *shardProcess) { p.kill() },
		"frozen":       func(_ *shardWorld, p *shardProcess) { p.freeze() },
		"disconnected": func(_ *shardWorld, p *shardProcess) { p.setCut(true) },
		"silent":       func(_ *shardWorld, p *shardProcess) { p.setSilence(lostRequests) },
		"stuck":        func(_ *shardWorld, p *shardProcess) { p.setSilence(stuckRequests) },
		"stopped":      func(_ *shardWorld, p *shardProcess) { p.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range seeds(3) {
				synctest.Test(t, func(t *testing.T) {
					w := newShardWorld(t, seed)
					w.longest = time.Second // less than the CancellationTimeout, so that a stopped shard releases its Lease
					stopSharder := w.startAll(3, 12)
					wait(time.Minute + time.Duration(w.random.Int64N(int64(10*time.Second))))
					victim := w.processes[w.random.IntN(3)]
					list := &v1.WidgetList{}
					must(t, w.users.List(t.Context(), list, client.MatchingLabels{sharding.ShardLabel(ring): victim.name}))
					if len(list.Items) == 0 {
						t.Error("the shard has no objects")
					}
					end(w, victim)
					began := time.Now()
					for i := range list.Items {
						patch(t.Context(), t, w.users, &list.Items[i], `{"spec":{"size":2}}`)
					}
					wait(limit)
					w.mu.Lock()
					for i := range list.Items {
						if at, served := w.served[fmt.Sprintf("%s 2", list.Items[i].UID)]; !served {
							t.Errorf("seed %d: %s is not served within %s\n%s", seed, list.Items[i].Name, limit, strings.Join(w.lines, "\n"))
						} else if name == "stopped" && at.Sub(began) > 15*time.Second {
							t.Errorf("seed %d: %s is served %s after the end of its shard, want less than 15s", seed, list.Items[i].Name, at.Sub(began))
						}
					}
					w.mu.Unlock()
					victim.thaw()
					victim.setSilence(noSilence)
					wait(time.Minute)
					w.stopAll(10 * time.Second)
					stopSharder()
					w.mu.Lock()
					defer w.mu.Unlock()
					for _, violation := range w.wrong {
						t.Errorf("seed %d: %s", seed, violation)
					}
				})
			}
		})
	}
}

// TestShards_KeepTheLeaseOfUnfinishedDaemons stops a shard whose daemons and whose manager need longer than the lease duration. The other shards must not
// handle its objects before the daemons have returned.
func TestShards_KeepTheLeaseOfUnfinishedDaemons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newShardWorld(t, 1)
		w.longest, w.slowStop = time.Second, 25*time.Second
		stopSharder := w.startAll(3, 12)
		wait(time.Minute)
		stopped := w.processes[0]
		stopped.stop()
		wait(40 * time.Second)
		list := &v1.WidgetList{}
		must(t, w.users.List(t.Context(), list, client.MatchingLabels{sharding.ShardLabel(ring): stopped.name}))
		if len(list.Items) > 0 {
			t.Errorf("%d objects still belong to %s, want 0 after the end of its daemons", len(list.Items), stopped.name)
		}
		w.stopAll(time.Minute)
		stopSharder()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, violation := range w.wrong {
			t.Error(violation)
		}
		if t.Failed() {
			t.Log(strings.Join(w.lines, "\n"))
		}
	})
}

// TestShards_FindPlantedBugs checks that the simulations find bugs of the protocol.
func TestShards_FindPlantedBugs(t *testing.T) {
	for _, bug := range []struct {
		name, shows string
		edit        edit
	}{
		{
			"a drain is acknowledged before the work has ended", "before its daemon has ended",
			edit{"internal/engine/scope.go", "if e.isBusy(uid) {", "if false && e.isBusy(uid) {"},
		},
		{
			"the labels of the ring count as changes", "the update is about metadata",
			edit{"internal/essence/builder.go", "\tclearRingLabels(essence)\n}", "}"},
		},
		{
			"the expiry of a Lease is judged by the wall clock", "two attempts",
			edit{
				"internal/parts/ring/lease.go", "options.Decide(l.lease, first, time.Since(since))",
				"options.Decide(l.lease, first, func() time.Duration {\n\tif l.lease == nil {\n\t\treturn time.Since(since)\n\t}\n\treturn options.WallClock().Sub(l.lease.Spec.RenewTime.Time)\n}())",
			},
		},
		{
			"the work continues while the Lease is overdue", "two attempts",
			edit{"internal/parts/fence/fence.go", "Overdue: overdue,", "Overdue: func() bool { return false },"},
		},
		{
			"the death of another shard is judged by the wall clock", "two attempts",
			edit{"internal/parts/ring/dead.go", "now.Sub(seen.since)", "options.WallClock().Sub(lease.Spec.RenewTime.Time)"},
		},
	} {
		t.Run(bug.name, func(t *testing.T) {
			findBug(t, []edit{bug.edit}, bug.shows, "-test.run=^TestShards_EachObjectHasOneOwner$", "-shards=100")
		})
	}
}
