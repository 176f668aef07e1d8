package kopftest

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A Scenario is an operator and a sequence of user changes, for [Check], [Explore] and [Walk].
type Scenario struct {
	// Given is the initial state of the cluster. Its Faults and Duration are ignored.
	Given Given
	// Operator returns the options of the operator. It is called each time the operator starts. If the handlers need the manager, use Setup
	// instead.
	Operator func() []kopf.Option
	// Setup replaces Operator for an operator with its own setup function, such as the one in main.go, or for handlers that need the
	// manager. It is called each time the operator starts.
	//
	//	Setup: func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, databases(mgr.GetClient())) },
	Setup func(mgr manager.Manager) error
	// Steps are the user changes. Each step starts when the operator has no pending work, as for [Operator.RunUntilQuiet].
	Steps []func(t testing.TB, c *Cluster)
	// ExternalState returns the state that handlers change outside of the cluster, such as the state of a fake cloud API. Whenever the
	// operator has no pending work, it must be the same with and without faults. The comparison follows pointers.
	ExternalState func() any
	// Ignore lists the dotted paths of fields that may differ, such as "status.startedAt". Write "\." for a dot in a key.
	Ignore []string
}

// setup returns the function that sets up the operator.
func (s Scenario) setup() func(manager.Manager) error {
	if s.Setup != nil {
		return s.Setup
	}
	return func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, s.Operator()...) }
}

// Check tests whether handlers survive crashes, failed requests and shutdowns. It first runs a scenario without faults. Then it repeats the
// scenario, in memory and in virtual time, once for each of these faults:
//
//   - a crash before each write and a crash after each write, followed by a restart. Handlers whose success wasn't written are then called
//     again, which leads to the same state if they are idempotent.
//   - a conflict, a server error and a lost response at each write.
//   - a shutdown during each handler call, followed by a restart. The handler must return when its context is cancelled.
//
// After each step, all objects and the external state must be the same as without faults. Objects that only differ in their names count as
// equal, because handlers may give random names to children. Differences of the same kind are reported once, with their number.
//
// Check also reports unsafe writes, which can overwrite a concurrent change:
//
//   - an update without a resourceVersion;
//   - a patch that replaces a list without a resourceVersion or a test;
//   - a JSON patch that addresses a list item by its index without a test.
//
// Check injects faults at no more than 100 writes and 100 calls, evenly spread, and logs this if a scenario has more. If no handler is
// called, the test fails.
//
// The function setup must return a new Scenario with new external state for each run. Check calls it in a testing/synctest bubble, so the
// test itself must not run in one.
//
// To check only an operator's declaration without calling handlers, use its CheckDeclaration method.
func Check(t *testing.T, setup func() Scenario) {
	t.Helper()
	for _, finding := range findings(t, setup) {
		t.Errorf("kopftest: %s", finding)
	}
}

// findings runs the scenario with all faults, and returns each finding once.
func findings(t *testing.T, setup func() Scenario) (all []string) {
	t.Helper()
	reference := runScenario(t, setup, runOptions{when: injection{}.when()})
	add := func(found ...string) {
		for _, text := range found {
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	add(unsafeWrites(reference.writes)...)
	add(reference.unstoppable)
	if reference.problem != "" {
		add(injection{}.when() + ": " + reference.problem)
		return all
	}
	if len(reference.calls) == 0 {
		add("no handler was called, so the scenario tests nothing: give it an object that the filters of a handler match, " +
			"or create one in a step")
		return all
	}
	var differences differences
	for _, injection := range injections(t, reference) {
		again := runScenario(t, setup, runOptions{plan: injection.plan(), when: injection.when()})
		add(again.unstoppable)
		if again.problem != "" {
			differences.add(again.problem, fmt.Sprintf("%s: %s", injection.when(), again.problem))
			continue
		}
		if kind, differs := reference.run.Differs(again.run); differs != "" {
			differences.add(kind, fmt.Sprintf("%s, the state differs from a run without faults: %s", injection.when(), differs))
		}
	}
	add(differences.summaries()...)
	return all
}

// differences groups findings by their kind, because one bug often shows after many faults.
type differences struct {
	kinds []string
	first map[string]string
	count map[string]int
}

func (d *differences) add(kind, text string) {
	if d.first == nil {
		d.first, d.count = map[string]string{}, map[string]int{}
	}
	if d.count[kind]++; d.count[kind] == 1 {
		d.kinds, d.first[kind] = append(d.kinds, kind), text
	}
}

// summaries returns one line for each kind, with the first finding and the number of others.
func (d *differences) summaries() (lines []string) {
	for _, kind := range d.kinds {
		line := d.first[kind]
		if others := d.count[kind] - 1; others > 0 {
			line += fmt.Sprintf(" (and %d more of this kind)", others)
		}
		lines = append(lines, line)
	}
	return lines
}

// An injection is one fault at one point of a scenario. The zero value is a run without faults.
type injection struct {
	write  int    // number of the write, counted from 1; 0 for a shutdown
	what   string // kind of the fault: one of the constants below
	call   int    // number of the handler call in which the operator is shut down, counted from 1; 0 for a fault at a write
	target string // describes the write or the call in messages
}

// when returns a text for messages, such as "after a crash before write 2 (patch pods/orders)".
func (i injection) when() string {
	if i == (injection{}) {
		return "without faults"
	}
	return "after " + i.String()
}

func (i injection) String() string {
	switch {
	case i.call > 0:
		return "a shutdown during " + i.target
	case i.what == crashBefore:
		return fmt.Sprintf("a crash before write %d (%s)", i.write, i.target)
	case i.what == crashAfter:
		return fmt.Sprintf("a crash after write %d (%s)", i.write, i.target)
	default:
		return fmt.Sprintf("%s at write %d (%s)", i.what, i.write, i.target)
	}
}

// plan returns the injection as a plan for package explore.
func (i injection) plan() explore.Plan {
	if i.call > 0 {
		return explore.Plan{{Kind: explore.Shutdown, At: i.call}}
	}
	return explore.Plan{{Kind: planKinds[i.what], At: i.write}}
}

var planKinds = map[string]explore.Kind{
	crashBefore: explore.CrashBefore, crashAfter: explore.CrashAfter, conflict: explore.Conflict, fault: explore.Failed, lostAnswer: explore.Lost,
}

const (
	crashBefore = "crash before"
	crashAfter  = "crash after"
	conflict    = "a conflict"
	fault       = "a server error"
	lostAnswer  = "a lost response"
)

// injections returns the faults for a scenario, at no more than maxInjections writes and maxInjections calls, evenly spread.
func injections(t testing.TB, reference *scenarioRun) (all []injection) {
	t.Helper()
	if len(reference.writes) > maxInjections || len(reference.calls) > maxInjections {
		t.Logf("kopftest: the scenario has %d writes and %d calls; %d of each are tried, evenly spread. To try all, split it into shorter scenarios",
			len(reference.writes), len(reference.calls), maxInjections)
	}
	for _, i := range spreadIndexes(len(reference.writes)) {
		for _, what := range []string{crashBefore, crashAfter, conflict, fault, lostAnswer} {
			all = append(all, injection{write: i + 1, what: what, target: reference.writes[i].String()})
		}
	}
	for _, i := range spreadIndexes(len(reference.calls)) {
		all = append(all, injection{call: i + 1, target: reference.calls[i].String()})
	}
	return all
}

// maxInjections limits the number of writes and of calls with faults, so that a check only takes seconds.
const maxInjections = 100

// spreadIndexes returns up to maxInjections numbers below n, evenly spread, with the first and the last one.
func spreadIndexes(n int) (chosen []int) {
	tries := min(n, maxInjections)
	for k := range tries {
		chosen = append(chosen, k*(n-1)/max(1, tries-1))
	}
	return chosen
}
