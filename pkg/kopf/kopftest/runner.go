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
)

// A scenarioRun is the record of one run of a scenario.
type scenarioRun struct {
	calls       []Call
	writes      []Write
	run         *explore.Run
	unstoppable string // message about a handler that didn't return when its context was cancelled
	problem     string // why the run stopped early; empty if it is complete
}

type runOptions struct {
	plan               explore.Plan
	when               string                          // the plan in messages, such as "without faults"
	wrap               func() explore.TransportWrapper // wraps the transport of each operator instance; may be nil
	checkIdle          bool                            // whether to wait before each snapshot, and to record late writes
	waitBeforeSnapshot bool                            // whether to wait before each snapshot, for daemons and timers
	collectGarbage     bool                            // whether snapshots omit objects whose owners don't exist

	// next returns the setup function of the operator that starts next, after the given number of others. Default: the scenario's.
	next func(s *scenarioRunner, starts int) func(manager.Manager) error
	// steps replaces the steps of the scenario.
	steps func(t *testing.T, s *scenarioRunner)
}

// runScenario runs a scenario in a new bubble.
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

// A scenarioRunner runs one scenario. It starts a new operator instance whenever the current one has stopped.
type scenarioRunner struct {
	runOptions
	scenario    Scenario
	injector    *explore.Injector
	cluster     *Cluster
	baseVersion int64 // the server's version before the first operator started

	mu        sync.Mutex
	counted   int64 // the server's version up to which position has counted the changes
	changed   int   // number of these changes
	out       *scenarioRun
	instances []*Operator
	started   chan struct{} // closed when the next operator has started, or when no further one will
	lifecycle chan struct{} // semaphore for stopping and starting operators
	stopped   bool          // whether no further operator will start; guarded by lifecycle
}

func newScenarioRunner(t *testing.T, scenario Scenario, options runOptions, out *scenarioRun) *scenarioRunner {
	t.Helper()
	s := &scenarioRunner{runOptions: options, scenario: scenario, cluster: scenario.Given.cluster(t), out: out, started: make(chan struct{}), lifecycle: make(chan struct{}, 1)}
	s.baseVersion = s.cluster.server.CurrentVersion()
	s.counted = s.baseVersion
	s.injector = explore.NewInjector(options.plan, s.position)
	return s
}

// position returns the number of changes and calls so far.
func (s *scenarioRunner) position() explore.Moment {
	s.mu.Lock()
	lives := slices.Clone(s.instances)
	for _, c := range s.cluster.server.Changes(s.counted) { // only new ones, because position is called for each write and each event
		if s.counted = c.Version; s.isRelevant(c) {
			s.changed++
		}
	}
	out := explore.Moment{Changes: s.changed}
	s.mu.Unlock()
	for _, o := range lives {
		out.Calls += o.tracker.callTransitions()
	}
	return out
}

// changes returns the changes of objects since the first operator started, without Events and Leases.
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
	if s.steps != nil {
		s.steps(t, s)
		return
	}
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

// recordLateWrites records the operator's writes in the hour after the last step.
func (s *scenarioRunner) recordLateWrites(t *testing.T) {
	t.Helper()
	before := len(s.injector.Writes())
	<-time.After(time.Hour)
	s.awaitQuiet(t)
	for _, w := range s.injector.Writes()[before:] {
		s.out.run.LateWrites = append(s.out.run.LateWrites, w.Request+" "+w.Object)
	}
}

// runStep runs one step of the scenario.
func (s *scenarioRunner) runStep(t *testing.T, number int, step func(testing.TB, *Cluster)) {
	t.Helper()
	failed := t.Failed()
	defer func() {
		if t.Failed() && !failed {
			t.Logf("kopftest: step %d of the scenario failed, %s", number, s.when)
		}
	}()
	step(t, s.cluster)
}

// restartDelay is the time between two operators in Explore. Steps may change objects in the meantime.
const restartDelay = time.Second

// restartOperators starts a new operator whenever one has stopped, until the scenario is over.
func (s *scenarioRunner) restartOperators(t *testing.T) {
	o, started := s.current()
	returned := false
	defer func() {
		if !returned { // the next operator's setup has failed the test
			s.fail("the operator could not be restarted")
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

// stop stops the current operator and the scenario, because synctest panics if an operator outlives its bubble.
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

// current returns the current operator, and a channel that is closed when the next one has started.
func (s *scenarioRunner) current() (o *Operator, started chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[len(s.instances)-1], s.started
}

func (s *scenarioRunner) startOperator(t *testing.T) {
	t.Helper()
	o := s.cluster.operator(nil)
	o.virtual = true
	o.connection.injector = s.injector
	if s.wrap != nil {
		o.connection.wrap = s.wrap()
	}
	o.connection.onDisconnect = func() { o.stop() }
	o.tracker.version = s.cluster.server.CurrentVersion
	o.tracker.onCall = func(Call) {
		if s.injector.RecordCall() {
			o.stop()
		}
	}
	o.connection.replica = s.replica()
	setup := s.scenario.setup()
	if s.next != nil {
		setup = s.next(s, len(s.instances))
	}
	o.start(t, setup, logr.Discard())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instances, s.started = append(s.instances, o), make(chan struct{})
	s.out.run.Starts++
}

// replicaLag is how long a replica returns old state: longer than an operator's default consistency timeout.
const replicaLag = 10 * time.Second

// replica returns the replica that answers the next operator if the plan's last crash has a stale list, and otherwise nil.
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
	replica.LagAt(version)
	time.AfterFunc(replicaLag, replica.CatchUp)
	return replica
}

// snapshotDelay is how long daemons, timers and delayed watch events have before a snapshot.
const snapshotDelay = 2 * time.Minute

// settle waits until the operator is quiet.
func (s *scenarioRunner) settle(t *testing.T) {
	t.Helper()
	s.awaitQuiet(t)
	if s.checkIdle || s.waitBeforeSnapshot {
		<-time.After(snapshotDelay)
		s.awaitQuiet(t)
	}
}

// awaitQuiet waits until the current operator is quiet. If it stops, awaitQuiet continues with the next one.
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

// takeSnapshot records the objects and the external state.
func (s *scenarioRunner) takeSnapshot() {
	objects := s.cluster.server.All()
	if s.collectGarbage {
		objects = withoutGarbage(objects)
	}
	now := explore.QuietState{State: explore.NormalizeState(objects, s.scenario.Ignore)}
	if s.scenario.ExternalState != nil {
		outside := s.scenario.ExternalState()
		now.External, now.ExternalDump = fmt.Sprintf("%+v", outside), dump.ForHash(outside)
		if strings.Contains(now.External, "0x") { // addresses differ from run to run
			now.External = now.ExternalDump
		}
	}
	s.out.run.QuietStates = append(s.out.run.QuietStates, now)
	for _, text := range explore.OutdatedStatuses(s.versions()) {
		if !slices.Contains(s.out.run.Findings, text) {
			s.out.run.Findings = append(s.out.run.Findings, text)
		}
	}
}

// versions returns the versions of all objects so far. A version counts as the operator's if one of its writes, and nothing else, has
// created it.
func (s *scenarioRunner) versions() (out []explore.ObjectVersion) {
	for _, c := range s.cluster.server.Changes(0) {
		if s.isRelevant(c) {
			obj := newUnstructured(c.Object)
			name := c.Resource + " " + obj.GetNamespace() + "/" + obj.GetName()
			out = append(out, explore.ObjectVersion{Name: name, Content: c.Object, Deleted: c.Deleted})
		}
	}
	given := len(out) - len(s.changes())
	for _, w := range s.injector.Writes() {
		if at := given + w.Before.Changes; w.After.Changes == w.Before.Changes+1 && strings.HasSuffix(out[at].Name, " "+w.Object) {
			out[at].Own = true
		}
	}
	return out
}

// withoutGarbage returns the objects that a garbage collector keeps: those without owners and those with an existing owner.
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
		return withoutGarbage(left) // the removed objects may own others
	}
	return left
}

// finish stops an operator and adds its calls and writes to the run.
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

// record completes the run for package explore.
func (s *scenarioRunner) record() {
	run := s.out.run
	s.injector.CopyTo(run)
	run.Problem = s.out.problem
	run.Calls = s.history().calls(s.out.calls)
	if s.out.unstoppable != "" {
		run.Findings = append(run.Findings, s.out.unstoppable)
	}
	if len(s.plan) == 0 {
		s.recordChanges()
	}
}

// recordChanges adds each change to the reference run, with the watched objects' state after the change.
func (s *scenarioRunner) recordChanges() {
	watched := map[string]bool{}
	for _, n := range s.injector.WatchNames() {
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
			text, _ := json.Marshal(obj) // can't fail, because the object was decoded from JSON
			state[name] = string(text)
		}
		if c.Version > s.baseVersion && s.isRelevant(c) {
			change := explore.StoreChange{Resource: c.Resource, Object: obj.GetNamespace() + "/" + obj.GetName(), State: fmt.Sprint(state)}
			s.out.run.Changes = append(s.out.run.Changes, change)
		}
	}
}
