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

// A scenarioRun is one run of the story.
type scenarioRun struct {
	calls       []Call
	writes      []Write
	run         *explore.Run
	unstoppable string // a handler that does not end
	problem     string // why the story did not reach its end
}

// runOptions configure one run of a story.
type runOptions struct {
	plan               explore.Plan
	when               string                          // the plan, for people
	wrap               func() explore.TransportWrapper // what is around the server, for each life of the operator; nil: nothing
	checkIdle          bool                            // the operator has to stay at rest for an hour in the end
	waitBeforeSnapshot bool                            // what runs beside the objects has some time before a scene is looked at
	collectGarbage     bool                            // objects whose owners are gone do not count
}

// rehearse runs the story in a bubble of its own.
func runScenario(t *testing.T, setup func() Scenario, options runOptions) *scenarioRun {
	t.Helper()
	out := &scenarioRun{run: &explore.Run{}}
	synctest.Test(t, func(t *testing.T) {
		scenario := setup()
		advanceClock(t, scenario.Given.Now)
		scenario.Given.check(t)
		s := newScenarioRunner(t, scenario, options, out)
		s.runSteps(t)
		s.record()
	})
	return out
}

// A scenarioRunner runs one story.
type scenarioRunner struct {
	runOptions
	scenario    Scenario
	injector    *explore.Injector
	cluster     *Cluster
	baseVersion int64 // version of the server before the first life of the operator

	mu        sync.Mutex
	out       *scenarioRun
	instances []*Operator
	started   chan struct{} // closed when the next life begins, or none will
	lifecycle chan struct{} // has room for the one who ends lives and starts them
	stopped   bool          // no life follows the present one; for the one whose turn it is
}

func newScenarioRunner(t *testing.T, scenario Scenario, options runOptions, out *scenarioRun) *scenarioRunner {
	t.Helper()
	s := &scenarioRunner{runOptions: options, scenario: scenario, cluster: scenario.Given.cluster(t), out: out, started: make(chan struct{}), lifecycle: make(chan struct{}, 1)}
	s.baseVersion = s.cluster.server.Versions()
	s.injector = explore.NewInjector(options.plan, s.moment)
	return s
}

// moment is the present point in the order of things.
func (s *scenarioRunner) moment() explore.Position {
	s.mu.Lock()
	lives := slices.Clone(s.instances)
	s.mu.Unlock()
	out := explore.Position{Changes: len(s.changes())}
	for _, o := range lives {
		out.Calls += o.tracker.callTransitions()
	}
	return out
}

// changes are those of the server since the beginning, without Events and Leases.
func (s *scenarioRunner) changes() (out []apiserver.Change) {
	for _, c := range s.cluster.server.Changes(s.baseVersion) {
		if s.isRelevant(c) {
			out = append(out, c)
		}
	}
	return out
}

func (s *scenarioRunner) isRelevant(c apiserver.Change) bool {
	version, _ := c.Object["apiVersion"].(string)
	kind, _ := c.Object["kind"].(string)
	return !explore.IsEventOrLease(version, kind)
}

func (s *scenarioRunner) runSteps(t *testing.T) {
	t.Helper()
	s.startOperator(t)
	go s.restartOperators(t)
	defer s.stop()
	s.settle(t)
	s.takeSnapshot()
	for i, step := range s.scenario.Steps {
		if s.problem() != "" {
			return
		}
		s.runStep(t, i+1, step)
		s.settle(t)
		s.takeSnapshot()
	}
	if s.checkIdle && s.problem() == "" {
		s.recordLateWrites(t)
	}
}

// stay looks at what the operator writes in the hour after the end.
func (s *scenarioRunner) recordLateWrites(t *testing.T) {
	t.Helper()
	former := len(s.injector.Writes())
	<-time.After(time.Hour)
	s.awaitQuiet(t)
	for _, w := range s.injector.Writes()[former:] {
		s.out.run.LateWrites = append(s.out.run.LateWrites, w.Request+" "+w.Object)
	}
}

// runStep runs one step of the story.
func (s *scenarioRunner) runStep(t *testing.T, number int, step func(testing.TB, *Cluster)) {
	t.Helper()
	failed := t.Failed()
	defer func() {
		if t.Failed() && !failed {
			t.Logf("kopftest: that was in step %d of the story, %s", number, s.when)
		}
	}()
	step(t, s.cluster)
}

// restartDelay is how long it takes in an exploration until the next life begins: others may change objects meanwhile.
const restartDelay = time.Second

// supervise starts the next life as soon as one has ended on the way.
func (s *scenarioRunner) restartOperators(t *testing.T) {
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
		s.lifecycle <- struct{}{}
		if s.stopped {
			break
		}
		s.finish(o)
		if s.problem() == "" {
			if s.checkIdle {
				<-time.After(restartDelay)
			}
			s.startOperator(t)
		}
		close(started)
		if s.problem() != "" {
			break
		}
		<-s.lifecycle
		o, started = s.current()
	}
	<-s.lifecycle
	returned = true
}

// end ends the present life, and with it the story. Without it, the operator would outlive its bubble.
func (s *scenarioRunner) stop() {
	s.lifecycle <- struct{}{}
	s.stopped = true
	o, _ := s.current()
	if s.problem() == "" || !o.hasEnded() {
		s.finish(o)
	}
	<-s.lifecycle
}

func (s *scenarioRunner) fail(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.problem = problem
}

func (s *scenarioRunner) problem() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.problem
}

// current returns the present life, and what is closed when the next one begins.
func (s *scenarioRunner) current() (o *Operator, started chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[len(s.instances)-1], s.started
}

// launch starts the next life of the operator.
func (s *scenarioRunner) startOperator(t *testing.T) {
	t.Helper()
	o := s.cluster.operator(nil)
	o.connection.injector = s.injector
	if s.wrap != nil {
		o.connection.wrap = s.wrap()
	}
	o.connection.onDisconnect = func() { o.stop() }
	o.tracker.version = s.cluster.server.Versions
	o.tracker.onCall = func(Call) {
		if s.injector.Call() {
			o.stop()
		}
	}
	o.connection.replica = s.replica()
	setup := s.scenario.Setup
	if setup == nil {
		setup = func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, s.scenario.Operator()...) }
	}
	o.start(t, setup, logr.Discard())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances, s.started = append(s.instances, o), make(chan struct{})
	s.out.run.Starts++
}

// replicaLag is for how long a replica lags: longer than operators wait for what they have written themselves.
const replicaLag = 10 * time.Second

// replica is what the next life of the operator reads from, if its first list must be old; nil otherwise.
func (s *scenarioRunner) replica() *apiserver.Replica {
	crash, ok := s.injector.LastCrash()
	if !ok || !crash.Stale {
		return nil
	}
	version := s.baseVersion
	if changes := s.changes(); crash.AsOf > 0 && len(changes) > 0 {
		version = changes[min(crash.AsOf, len(changes))-1].Version
	}
	replica := s.cluster.server.Replica()
	replica.RefuseWatchLists()
	replica.Lag(version)
	time.AfterFunc(replicaLag, replica.CatchUp)
	return replica
}

// snapshotDelay is how long it takes until a scene is looked at: what runs beside the objects, and what was held back, comes to rest, too.
const snapshotDelay = 2 * time.Minute

// rest waits until the operator has nothing left to do.
func (s *scenarioRunner) settle(t *testing.T) {
	t.Helper()
	s.awaitQuiet(t)
	if s.checkIdle || s.waitBeforeSnapshot {
		<-time.After(snapshotDelay)
		s.awaitQuiet(t)
	}
}

// awaitQuiet waits until the present life, or one that follows it, has nothing left to do.
func (s *scenarioRunner) awaitQuiet(t *testing.T) {
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
func (s *scenarioRunner) takeSnapshot() {
	objects := s.cluster.server.All()
	if s.collectGarbage {
		objects = withoutGarbage(objects)
	}
	now := explore.Snapshot{State: explore.NormalizeState(objects, s.scenario.Ignore)}
	if s.scenario.ExternalState != nil {
		outside := s.scenario.ExternalState()
		now.External, now.ExternalDump = fmt.Sprintf("%+v", outside), dump.ForHash(outside)
		if strings.Contains(now.External, "0x") { // where it is in memory
			now.External = now.ExternalDump
		}
	}
	s.out.run.Snapshots = append(s.out.run.Snapshots, now)
}

// collected are the objects that a garbage collector leaves: those without owners, and those with an owner that exists.
func withoutGarbage(objects []map[string]any) (left []map[string]any) {
	uids := map[types.UID]bool{}
	for _, content := range objects {
		uids[newUnstructured(content).GetUID()] = true
	}
	for _, content := range objects {
		owners := newUnstructured(content).GetOwnerReferences()
		if len(owners) == 0 || slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return uids[o.UID] }) {
			left = append(left, content)
		}
	}
	if len(left) < len(objects) {
		return withoutGarbage(left) // their own children
	}
	return left
}

// finish ends a life, and takes over what is known of it.
func (s *scenarioRunner) finish(o *Operator) {
	err := o.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	if unstoppable := o.unstoppable; unstoppable != "" {
		s.out.unstoppable = unstoppable
	} else if err != nil && s.out.problem == "" {
		s.out.problem = err.Error()
	}
	s.out.calls = append(s.out.calls, o.Calls()...)
	s.out.writes = append(s.out.writes, o.Writes()...)
}

// record completes the run for the explorer.
func (s *scenarioRunner) record() {
	run := s.out.run
	s.injector.Record(run)
	run.Problem = s.out.problem
	run.Calls = s.history().calls(s.out.calls)
	if s.out.unstoppable != "" {
		run.Findings = append(run.Findings, s.out.unstoppable)
	}
	if len(s.plan) == 0 {
		s.recordChanges()
	}
}

// recordChanges completes the reference run by the states that old lists have.
func (s *scenarioRunner) recordChanges() {
	watched := map[string]bool{}
	for _, n := range s.injector.Watched() {
		name, _, _ := strings.Cut(n, ",")
		watched[name] = true
	}
	state := map[string]string{}
	for _, c := range s.cluster.server.Changes(0) {
		obj := newUnstructured(c.Object)
		name := c.Resource + " " + obj.GetNamespace() + "/" + obj.GetName()
		delete(state, name)
		if watched[c.Resource] && !c.Deleted {
			obj = obj.DeepCopy()
			obj.SetResourceVersion("")
			text, _ := json.Marshal(obj) // it was decoded from JSON
			state[name] = string(text)
		}
		if c.Version > s.baseVersion && s.isRelevant(c) {
			change := explore.Change{Resource: c.Resource, Object: obj.GetNamespace() + "/" + obj.GetName(), State: fmt.Sprint(state)}
			s.out.run.Changes = append(s.out.run.Changes, change)
		}
	}
}
