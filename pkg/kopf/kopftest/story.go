package kopftest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A rehearsal is one run of the story.
type rehearsal struct {
	calls    []Call
	writes   []Write
	run      *explore.Run
	stubborn string // a handler that does not end
	problem  string // why the story did not reach its end
}

// rehearsalOptions configure one run of a story.
type rehearsalOptions struct {
	plan     explore.Plan
	when     string              // the plan, for people
	wrap     func() explore.Wrap // what is around the server, for each life of the operator; nil: nothing
	stays    bool                // the operator has to stay at rest for an hour in the end
	pauses   bool                // what runs beside the objects has some time before a scene is looked at
	collects bool                // objects whose owners are gone do not count
}

// rehearse runs the story in a bubble of its own.
func rehearse(t *testing.T, setup func() Trial, options rehearsalOptions) *rehearsal {
	t.Helper()
	out := &rehearsal{run: &explore.Run{}}
	synctest.Test(t, func(t *testing.T) {
		trial := setup()
		awaitNow(t, trial.Given.Now)
		trial.Given.check(t)
		s := newStage(t, trial, options, out)
		s.play(t)
		s.record()
	})
	return out
}

// A stage runs one story.
type stage struct {
	rehearsalOptions
	trial    Trial
	injector *explore.Injector
	cluster  *Cluster
	base     int64 // version of the server before the first life of the operator

	mu      sync.Mutex
	out     *rehearsal
	lives   []*Operator
	started chan struct{} // closed when the next life begins, or none will
	turn    chan struct{} // has room for the one who ends lives and starts them
	over    bool          // no life follows the present one; for the one whose turn it is
}

func newStage(t *testing.T, trial Trial, options rehearsalOptions, out *rehearsal) *stage {
	t.Helper()
	s := &stage{rehearsalOptions: options, trial: trial, cluster: trial.Given.cluster(t), out: out, started: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.base = s.cluster.server.Versions()
	s.injector = explore.NewInjector(options.plan, s.moment)
	return s
}

// moment is the present point in the order of things.
func (s *stage) moment() explore.Moment {
	s.mu.Lock()
	lives := slices.Clone(s.lives)
	s.mu.Unlock()
	out := explore.Moment{Changes: len(s.changes())}
	for _, o := range lives {
		out.Calls += o.watcher.turns()
	}
	return out
}

// changes are those of the server since the beginning, without Events and Leases.
func (s *stage) changes() (out []apiserver.Change) {
	for _, c := range s.cluster.server.Changes(s.base) {
		if s.counts(c) {
			out = append(out, c)
		}
	}
	return out
}

func (s *stage) counts(c apiserver.Change) bool {
	version, _ := c.Object["apiVersion"].(string)
	kind, _ := c.Object["kind"].(string)
	return !explore.IsBookkeeping(version, kind)
}

func (s *stage) play(t *testing.T) {
	t.Helper()
	s.launch(t)
	go s.supervise(t)
	defer s.end()
	s.rest(t)
	s.look()
	for i, step := range s.trial.Story {
		if s.problem() != "" {
			return
		}
		s.runStep(t, i+1, step)
		s.rest(t)
		s.look()
	}
	if s.stays && s.problem() == "" {
		s.stay(t)
	}
}

// stay looks at what the operator writes in the hour after the end.
func (s *stage) stay(t *testing.T) {
	t.Helper()
	former := len(s.injector.Writes())
	<-time.After(time.Hour)
	s.awaitQuiet(t)
	for _, w := range s.injector.Writes()[former:] {
		s.out.run.Late = append(s.out.run.Late, w.Request+" "+w.Object)
	}
}

// runStep runs one step of the story.
func (s *stage) runStep(t *testing.T, number int, step func(testing.TB, *Cluster)) {
	t.Helper()
	failed := t.Failed()
	defer func() {
		if t.Failed() && !failed {
			t.Logf("kopftest: that was in step %d of the story, %s", number, s.when)
		}
	}()
	step(t, s.cluster)
}

// downFor is how long it takes in an exploration until the next life begins: others may change objects meanwhile.
const downFor = time.Second

// supervise starts the next life as soon as one has ended on the way.
func (s *stage) supervise(t *testing.T) {
	o, started := s.current()
	returned := false
	defer func() {
		if !returned { // the next life could not be set up, and the test has failed
			s.fail("the operator could not be started again")
			close(started)
		}
	}()
	for {
		<-o.ended
		s.turn <- struct{}{}
		if s.over {
			break
		}
		s.finish(o)
		if s.problem() == "" {
			if s.stays {
				<-time.After(downFor)
			}
			s.launch(t)
		}
		close(started)
		if s.problem() != "" {
			break
		}
		<-s.turn
		o, started = s.current()
	}
	<-s.turn
	returned = true
}

// end ends the present life, and with it the story. Without it, the operator would outlive its bubble.
func (s *stage) end() {
	s.turn <- struct{}{}
	s.over = true
	o, _ := s.current()
	if s.problem() == "" || !o.hasEnded() {
		s.finish(o)
	}
	<-s.turn
}

func (s *stage) fail(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.problem = problem
}

func (s *stage) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.problem
}

// current returns the present life, and what is closed when the next one begins.
func (s *stage) current() (o *Operator, started chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives[len(s.lives)-1], s.started
}

// launch starts the next life of the operator.
func (s *stage) launch(t *testing.T) {
	t.Helper()
	o := s.cluster.operator(nil)
	o.link.injector = s.injector
	if s.wrap != nil {
		o.link.wrap = s.wrap()
	}
	o.link.onCut = func() { o.stop() }
	o.watcher.version = s.cluster.server.Versions
	o.watcher.began = func(Call) {
		if s.injector.Call() {
			o.stop()
		}
	}
	o.link.replica = s.replica()
	setup := s.trial.Setup
	if setup == nil {
		setup = func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, s.trial.Operator()...) }
	}
	o.start(t, setup, logr.Discard())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives, s.started = append(s.lives, o), make(chan struct{})
	s.out.run.Lives++
}

// lagsFor is for how long a replica lags: longer than operators wait for what they have written themselves.
const lagsFor = 10 * time.Second

// replica is what the next life of the operator reads from, if its first list must be old; nil otherwise.
func (s *stage) replica() *apiserver.Replica {
	crash, ok := s.injector.LastCrash()
	if !ok || !crash.Stale {
		return nil
	}
	version := s.base
	if changes := s.changes(); crash.AsOf > 0 && len(changes) > 0 {
		version = changes[min(crash.AsOf, len(changes))-1].Version
	}
	replica := s.cluster.server.Replica()
	replica.RefuseWatchLists()
	replica.Lag(version)
	time.AfterFunc(lagsFor, replica.CatchUp)
	return replica
}

// pauseAtRest is how long it takes until a scene is looked at: what runs beside the objects, and what was held back, comes to rest, too.
const pauseAtRest = 2 * time.Minute

// rest waits until the operator has nothing left to do.
func (s *stage) rest(t *testing.T) {
	t.Helper()
	s.awaitQuiet(t)
	if s.stays || s.pauses {
		<-time.After(pauseAtRest)
		s.awaitQuiet(t)
	}
}

// awaitQuiet waits until the present life, or one that follows it, has nothing left to do.
func (s *stage) awaitQuiet(t *testing.T) {
	t.Helper()
	for s.problem() == "" {
		o, started := s.current()
		left := o.quiet(t.Context())
		if o.hasEnded() || o.stopping.Load() {
			<-started
			continue
		}
		s.fail(left)
		return
	}
}

// look takes note of how it is.
func (s *stage) look() {
	objects := s.cluster.server.All()
	if s.collects {
		objects = collected(objects)
	}
	now := explore.Scene{State: explore.StateOf(objects, s.trial.Ignore)}
	if s.trial.Outside != nil {
		outside := s.trial.Outside()
		now.Outside, now.Dump = fmt.Sprintf("%+v", outside), dump.ForHash(outside)
		if strings.Contains(now.Outside, "0x") { // where it is in memory
			now.Outside = now.Dump
		}
	}
	s.out.run.Scenes = append(s.out.run.Scenes, now)
}

// collected are the objects that a garbage collector leaves: those without owners, and those with an owner that exists.
func collected(objects []map[string]any) (left []map[string]any) {
	uids := map[types.UID]bool{}
	for _, content := range objects {
		uids[unstructuredOf(content).GetUID()] = true
	}
	for _, content := range objects {
		owners := unstructuredOf(content).GetOwnerReferences()
		if len(owners) == 0 || slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return uids[o.UID] }) {
			left = append(left, content)
		}
	}
	if len(left) < len(objects) {
		return collected(left) // their own children
	}
	return left
}

// finish ends a life, and takes over what is known of it.
func (s *stage) finish(o *Operator) {
	err := o.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if stubborn := o.stubborn; stubborn != "" {
		s.out.stubborn = stubborn
	} else if err != nil && s.out.problem == "" {
		s.out.problem = err.Error()
	}
	s.out.calls = append(s.out.calls, o.Calls()...)
	s.out.writes = append(s.out.writes, o.Writes()...)
}

// record completes the run for the explorer.
func (s *stage) record() {
	run := s.out.run
	s.injector.Record(run)
	run.Problem = s.out.problem
	run.Calls = s.history().calls(s.out.calls)
	if s.out.stubborn != "" {
		run.Findings = append(run.Findings, s.out.stubborn)
	}
	if len(s.plan) == 0 {
		s.recordChanges()
	}
}

// recordChanges completes the reference run by the states that old lists have.
func (s *stage) recordChanges() {
	watched := map[string]bool{}
	for _, n := range s.injector.Watched() {
		name, _, _ := strings.Cut(n, ",")
		watched[name] = true
	}
	state := map[string]string{}
	for _, c := range s.cluster.server.Changes(0) {
		obj := unstructuredOf(c.Object)
		name := c.Resource + " " + obj.GetNamespace() + "/" + obj.GetName()
		delete(state, name)
		if watched[c.Resource] && !c.Deleted {
			obj = obj.DeepCopy()
			obj.SetResourceVersion("")
			text, _ := json.Marshal(obj) // it was decoded from JSON
			state[name] = string(text)
		}
		if c.Version > s.base && s.counts(c) {
			change := explore.Change{Resource: c.Resource, Object: obj.GetNamespace() + "/" + obj.GetName(), State: fmt.Sprint(state)}
			s.out.run.Changes = append(s.out.run.Changes, change)
		}
	}
}
