package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

var (
	simulations = flag.Int("simulations", 60, "number of random rollouts")
	seed        = flag.Uint64("seed", 0, "simulate only this seed, with a log")
)

const (
	noteKey    = "kopf.zalando.org/revision"
	optOutKey  = "example.com/hold"
	fleetLabel = "fleet"

	// editLimit is how long an edit may take: the longest call of a handler, and two waits for a cache after a fault.
	editLimit = maxWork + 15*time.Second
	maxWork   = 20 * time.Second
	ends      = time.Hour // until then, there are faults, and handlers fail
)

type configMap = *corev1.ConfigMap

func TestRollouts(t *testing.T) {
	if *seed != 0 {
		synctest.Test(t, func(t *testing.T) { simulate(t, *seed) })
		return
	}
	for n := range *simulations {
		t.Run(fmt.Sprintf("seed %d", n+1), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulate(t, uint64(n+1)) })
		})
	}
}

// world is a fleet of objects with users, and the versions of an operator that handle it.
type world struct {
	*testing.T
	*kopftest.Cluster
	random    *rand.Rand // of the script; handlers have their own
	options   rollout.Options
	operator  *kopftest.Operator // nil while no operator runs
	revision  map[string]int     // of the running version, by handler; empty for one without revisions
	start     time.Time
	isOrdered bool // b comes after a

	mu       sync.Mutex
	handlers *rand.Rand
	foreign  map[string]bool // objects that an operator without revisions may have handled
	called   map[string]int  // the highest revision for which each handler of an object was called
	ended    map[string]int  // the process in which a handler has ended for a revision of an object
	process  int
	slow     map[string]time.Time // when a handler of a creation or an update has asked for another attempt last
	edits    map[string]time.Time // the oldest unhandled edit of each object
	down     time.Time            // when an operator was started or a fault has ended last
	isDown   bool
}

func simulate(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a simulation
	w := &world{
		T: t, Cluster: kopftest.Memory(t), random: random, handlers: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a simulation
		foreign: map[string]bool{}, ended: map[string]int{}, called: map[string]int{}, slow: map[string]time.Time{}, edits: map[string]time.Time{}, revision: map[string]int{}, start: time.Now(),
		options: rollout.Options{
			Canaries: 0.05 + 0.5*random.Float64(), MaxParallel: 1 + random.IntN(4), HaltAt: 0.2 + 0.8*random.Float64(), OptOut: optOutKey, Namespace: "default",
			Deadline: time.Duration(5+random.IntN(30)) * time.Minute, Soak: time.Duration(random.IntN(3)) * 3 * time.Minute,
		},
	}
	w.isOrdered = random.IntN(2) == 0
	w.run(map[string]int{})
	for n := range 3 + random.IntN(12) {
		w.create(fmt.Sprintf("o%02d", n))
	}
	<-time.After(time.Minute)
	if !w.upgrade() {
		w.run(map[string]int{"a": 1, "b": 1})
	}
	for time.Since(w.start) < ends && !t.Failed() {
		<-time.After(time.Duration(random.ExpFloat64() * float64(4*time.Minute)))
		w.act()
	}
	w.settle()
}

func (w *world) logf(format string, args ...any) {
	if *seed != 0 {
		w.Logf("%9s "+format, append([]any{time.Since(w.start).Round(time.Millisecond)}, args...)...)
	}
}

// run replaces the operator with one whose handlers have these revisions.
func (w *world) run(revision map[string]int) {
	w.Helper()
	w.stop()
	w.revision = revision
	option := func(id string) kopf.HandlerOption {
		if revision[id] == 0 {
			return nil
		}
		return kopf.Revision(revision[id])
	}
	both := kopf.Label(fleetLabel, filter.Present)
	var after kopf.HandlerOption
	if w.isOrdered {
		after = kopf.After("a")
	}
	things := kopf.For(&corev1.ConfigMap{}).
		OnCreateOrUpdate("a", w.handler("a"), option("a"), both, kopf.Backoff(time.Minute)).
		OnCreateOrUpdate("b", w.handler("b"), option("b"), both, kopf.Backoff(time.Minute), after).
		OnUpdate("edit", w.edited, both, kopf.After("a", "b"))
	all := []kopf.Option{things}
	if len(revision) > 0 {
		all = append(all, kopf.WithRollout(w.options))
	} else {
		w.mu.Lock()
		for _, obj := range w.list() {
			w.foreign[obj.Name] = true
		}
		w.mu.Unlock()
	}
	w.logf("running with %v", revision)
	w.operator = w.Cluster.Run(w.T, all...)
	w.mu.Lock()
	w.down, w.isDown = time.Now(), false
	w.process++
	w.mu.Unlock()
}

func (w *world) stop() {
	w.Helper()
	w.mu.Lock()
	w.isDown = true
	w.mu.Unlock()
	if w.operator != nil {
		if w.random.IntN(2) == 0 {
			w.operator.Crash(w.T)
		} else {
			w.operator.Stop(w.T)
		}
	}
	w.operator = nil
}

func (w *world) upgrade() bool {
	if w.random.IntN(5) == 0 {
		w.run(map[string]int{})
		return false
	}
	w.run(map[string]int{"a": 1 + w.random.IntN(3), "b": 1 + w.random.IntN(3)})
	return true
}

func (w *world) list() []corev1.ConfigMap {
	var all corev1.ConfigMapList
	if err := w.Client.List(w.Context(), &all, client.HasLabels{fleetLabel}); err != nil {
		w.Error(err)
	}
	return all.Items
}

func (w *world) create(name string) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{fleetLabel: ""}}, Data: map[string]string{"edits": "0"}}
	w.Client.Create(w.Context(), obj) //nolint:errcheck // it may exist
}

// change changes a random object.
func (w *world) change(what string, change func(configMap)) {
	all := w.list()
	if len(all) == 0 {
		return
	}
	obj := &all[w.random.IntN(len(all))]
	w.logf("%s: %s", obj.Name, what)
	before := obj.DeepCopy()
	change(obj)
	if err := w.Client.Patch(w.Context(), obj, client.MergeFrom(before)); err != nil {
		w.Error(err)
	}
}

func annotate(obj configMap, key, value string) {
	all := maps.Clone(obj.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	if all[key] = value; value == "" {
		delete(all, key)
	}
	obj.Annotations = all
}

// act lets one random thing happen.
func (w *world) act() {
	switch w.random.IntN(12) {
	case 0, 1, 2, 3:
		w.change("edited", func(obj configMap) {
			obj.Data["edits"] += "1"
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.edits[obj.Name].IsZero() && time.Since(w.slow[obj.Name]) > 5*time.Minute && obj.Annotations[kopf.PausedAnnotation] == "" {
				w.edits[obj.Name] = time.Now()
			}
		})
	case 4:
		w.create(fmt.Sprintf("n%02d", w.random.IntN(50)))
	case 5:
		w.change("deleted", func(obj configMap) {
			w.mu.Lock()
			delete(w.edits, obj.Name)
			w.mu.Unlock()
			if err := w.Client.Delete(w.Context(), obj.DeepCopy()); err != nil {
				w.Error(err)
			}
			w.create("again-" + strings.TrimPrefix(obj.Name, "again-"))
			*obj = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again-" + strings.TrimPrefix(obj.Name, "again-"), Namespace: "default"}}
		})
	case 6:
		w.change("paused or not", func(obj configMap) {
			w.mu.Lock()
			delete(w.edits, obj.Name)
			w.mu.Unlock()
			annotate(obj, kopf.PausedAnnotation, map[bool]string{true: "true"}[obj.Annotations[kopf.PausedAnnotation] == ""])
		})
	case 7:
		w.change("opted out or not", func(obj configMap) {
			annotate(obj, optOutKey, map[bool]string{true: []string{"now", "holidays"}[w.random.IntN(2)]}[obj.Annotations[optOutKey] == ""])
		})
		w.mu.Lock()
		w.edits = map[string]time.Time{}
		w.mu.Unlock()
	case 8:
		fault := []kopftest.Fault{
			{Verb: "patch", Code: http.StatusInternalServerError, Times: 1 + w.random.IntN(3)},
			{Verb: "patch", Lost: true, Times: 1 + w.random.IntN(3)},
			{Verb: "update", Code: http.StatusConflict},
			{Verb: "watch", Code: http.StatusGone},
		}[w.random.IntN(4)]
		w.logf("fault %+v", fault)
		w.mu.Lock()
		w.edits = map[string]time.Time{} // a fault delays them
		w.down = time.Now().Add(5 * time.Minute)
		w.mu.Unlock()
		w.operator.InjectFaults(fault)
	case 9:
		w.logf("restart")
		w.run(w.revision)
	case 10:
		w.upgrade()
	case 11:
		w.resume()
	}
}

func (w *world) resume() {
	err := rollout.Resume(w.Context(), w.Client, client.ObjectKey{Namespace: "default", Name: rollout.DefaultName}, "configmaps")
	w.logf("resume: %v", err)
}

// settle ends all trouble, and checks that every object ends at the newest revision.
func (w *world) settle() {
	w.Helper()
	if w.random.IntN(2) == 0 || len(w.revision) == 0 { // otherwise, the last process goes on
		w.run(map[string]int{"a": 4, "b": 4})
	}
	var left []string
	for range 60 {
		<-time.After(10 * time.Minute)
		w.resume()
		if left = w.outdated(); len(left) == 0 || w.Failed() {
			break
		}
	}
	if len(left) > 0 {
		w.Errorf("these objects never reach the newest revision: %q", left)
	}
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, obj := range w.list() {
		for id, revision := range w.revision {
			if called := w.called[string(obj.UID)+" "+id]; !isHeld(&obj) && called < revision && !(id == "b" && w.isOrdered && noteOf(&obj).Handlers[id].Failed) {
				w.Errorf("%s: %s was called for revision %d, and never for %d: %s", obj.Name, id, called, revision, obj.Annotations[noteKey])
			}
		}
	}
}

type note struct {
	UID      string
	Entered  *time.Time
	Target   string
	Handlers map[string]struct {
		Revision int
		Failed   bool
	}
}

func noteOf(obj configMap) (n note) {
	_ = json.Unmarshal([]byte(obj.Annotations[noteKey]), &n)
	return n
}

func isHeld(obj configMap) bool {
	out := obj.Annotations[optOutKey]
	return obj.Annotations[kopf.PausedAnnotation] != "" || out != "" && out != "now"
}

func (w *world) outdated() (left []string) {
	for _, obj := range w.list() {
		n := noteOf(&obj)
		for id, revision := range w.revision {
			if !isHeld(&obj) && n.Handlers[id].Revision < revision {
				left = append(left, fmt.Sprintf("%s: %s", obj.Name, obj.Annotations[noteKey]))
			}
		}
	}
	slices.Sort(left)
	return left
}

// handler returns a handler that takes some time, and fails at random. It checks what holds for each call.
func (w *world) handler(id string) kopf.Handler[configMap] {
	return func(ctx context.Context, req *kopf.Request[configMap]) error {
		w.mu.Lock()
		name := string(req.Object.UID) + " " + id
		w.called[name] = max(w.called[name], w.revision[id])
		w.mu.Unlock()
		if req.Reason != kopf.ReasonRevision {
			if w.isSlow(req) {
				return errors.New("busy")
			}
			return nil
		}
		w.logf("%s: %s, attempt %d", req.Object.Name, id, req.Attempt.Number)
		w.check(id, req.Object)
		w.mu.Lock()
		work, outcome := time.Duration(w.handlers.Int64N(int64(maxWork))), w.handlers.IntN(12)
		w.mu.Unlock()
		select {
		case <-time.After(work):
		case <-ctx.Done():
			return ctx.Err()
		}
		isOver := time.Since(w.start) > ends
		if !isOver && outcome > 0 && outcome < 4 {
			return errors.New("busy")
		}
		w.mu.Lock()
		w.ended[w.callOf(id, req.Object)] = w.process
		w.mu.Unlock()
		if !isOver && outcome == 0 {
			return kopf.Permanent(errors.New("invalid"))
		}
		return nil
	}
}

// target returns the text that notes have about the running version.
func (w *world) target() string {
	return fmt.Sprintf("a %d, b %d", w.revision["a"], w.revision["b"])
}

// isSlow reports whether a handler of a creation or an update has to be called again, so that upgrades come in the middle of its cycle.
func (w *world) isSlow(req *kopf.Request[configMap]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.start) > ends || w.handlers.IntN(5) > 0 {
		return false
	}
	delete(w.edits, req.Object.Name) // edits wait for the cycle
	w.slow[req.Object.Name] = time.Now()
	return true
}

// check checks that no handler is called again whose outcome is stored, and that not too many objects are unfinished.
func (w *world) check(id string, obj configMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkEdits(time.Now())
	if w.ended[w.callOf(id, obj)] == w.process {
		w.Errorf("%s: %s is called again, although it has ended in this process: %s", obj.Name, id, obj.Annotations[noteKey])
	}
	unfinished := 0
	for _, one := range w.list() {
		n := noteOf(&one)
		isThis := one.Name == obj.Name && one.UID == obj.UID
		if isThis && !w.foreign[one.Name] && n.Handlers[id].Revision >= w.revision[id] {
			w.Errorf("%s: %s is called again for revision %d: %s", one.Name, id, w.revision[id], one.Annotations[noteKey])
		}
		isDue := false
		for id, revision := range w.revision {
			isDue = isDue || n.Handlers[id].Revision < revision
		}
		if n.Entered != nil && n.Target == w.target() && n.UID == string(one.UID) && isDue && !isHeld(&one) && time.Since(*n.Entered) < w.options.Deadline {
			unfinished++
		}
		if isThis && n.Entered == nil {
			w.Errorf("%s: %s is called, but the object has not entered the rollout: %s", one.Name, id, one.Annotations[noteKey])
		}
	}
	if unfinished > w.options.MaxParallel {
		w.Errorf("%d objects are unfinished at the same time, want at most %d", unfinished, w.options.MaxParallel)
	}
}

// callOf identifies the calls of a handler for one revision of an object.
func (w *world) callOf(id string, obj configMap) string {
	return fmt.Sprintf("%s %s %d", obj.UID, id, w.revision[id])
}

// edited is called for users' edits.
func (w *world) edited(_ context.Context, req *kopf.Request[configMap]) error {
	w.logf("%s: the edit is handled", req.Object.Name)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkEdits(time.Now())
	delete(w.edits, req.Object.Name)
	return nil
}

// checkEdits checks that no edit has waited for long while the operator was running.
func (w *world) checkEdits(now time.Time) {
	for name, at := range w.edits {
		if later := time.Unix(max(at.Unix(), w.down.Unix()), 0); !w.isDown && now.Sub(later) > editLimit {
			w.Errorf("the edit of %s has waited for %s", name, now.Sub(cmp.Or(at, later)))
			delete(w.edits, name)
		}
	}
}
