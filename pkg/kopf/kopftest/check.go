package kopftest

import (
	"fmt"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/explore"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A Scenario is an operator with a little story, for [Check].
type Scenario struct {
	// Given is the world before it; its Faults and For are not used.
	Given Given
	// Operator declares the operator, anew for each of its lives.
	Operator func() []kopf.Option
	// Setup sets up the operator with a manager, in place of Operator: the same function as in main.go, say. It is called for each
	// of its lives.
	Setup func(mgr manager.Manager) error
	// Story is what users do, step by step; before each, and after the last, the operator comes to rest.
	Steps []func(t testing.TB, c *Cluster)
	// Outside is the state of what handlers have to do with outside of the cluster, such as a cloud made up for the test: it is
	// to be the same whenever the operator is at rest, whatever has happened. Pointers are followed.
	ExternalState func() any
	// Ignore are dotted paths in objects that may differ, such as "status.startedAt", with "\." for a dot within a key.
	Ignore []string
}

// Check tells whether handlers stand what operators go through. It has the story told without any trouble first, and then again and
// again, in memory, in virtual time:
//
//   - with a crash before, and after, each write, and a new operator that goes on: handlers that were called, and whose
//     success was not written yet, are called again. All objects, and what is outside, have to be the same whenever
//     the operator is at rest as without the crash: the handlers are idempotent.
//   - with each write refused by a conflict, by a fault of the server, and with its answer lost.
//   - with a shutdown while each call of a handler is under way: the handler has to end with its context, and everything has to
//     be the same at rest.
//
// Of a story with more than a hundred writes, or calls, a hundred are tried, evenly spread, and the test logs that.
//
// Differences of one kind are reported once, with their number. Objects whose names differ, and nothing else, count as the same: handlers
// may give children random names.
//
// A story in which no handler is called shows nothing, and fails the test.
//
// And it looks at what the handlers write: a patch that replaces a list, or an update, without the resourceVersion of what it was made
// of, loses what somebody else has put there in between.
//
// The function makes a new scenario for each time, with a new world outside. What it makes is made in a bubble of testing/synctest; the
// test must not be in one.
//
// Check calls handlers. To check only the declaration of an operator, call its CheckDeclaration method.
func Check(t *testing.T, setup func() Scenario) {
	t.Helper()
	for _, finding := range findings(t, setup) {
		t.Errorf("kopftest: %s", finding)
	}
}

// findings tells the story in all ways; each finding is told once.
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
		add("no handler was called in the whole story: the scenario shows nothing. Give it an object of a kind that the operator has handlers for, " +
			"which their filters let through, or have the story make one")
		return all
	}
	var differences differences
	for _, tr := range injections(t, reference) {
		again := runScenario(t, setup, runOptions{plan: tr.plan(), when: tr.when()})
		add(again.unstoppable)
		if again.problem != "" {
			differences.add(again.problem, fmt.Sprintf("%s: %s", tr.when(), again.problem))
			continue
		}
		if kind, differs := reference.run.Differs(again.run); differs != "" {
			differences.add(kind, fmt.Sprintf("%s, it is not as it would have been: %s", tr.when(), differs))
		}
	}
	add(differences.summaries()...)
	return all
}

// differences collects findings by their kind: a bug in a handler shows after many troubles, mostly in the same way.
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

// summaries returns one line for each kind: the first finding, and how many there are like it.
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

// A trouble is one thing that happens; the zero value is none.
type injection struct {
	write  int    // counted from 1
	what   string // crash, crash after, conflict, fault, lost
	call   int    // counted from 1: a shutdown while this one is under way
	target string // for people
}

// when is for the end of a sentence.
func (tr injection) when() string {
	if tr == (injection{}) {
		return "without any trouble"
	}
	return "after " + tr.String()
}

func (tr injection) String() string {
	switch {
	case tr.call > 0:
		return "a shutdown during " + tr.target
	case tr.what == crashBefore:
		return fmt.Sprintf("a crash before write %d (%s)", tr.write, tr.target)
	case tr.what == crashAfter:
		return fmt.Sprintf("a crash after write %d (%s)", tr.write, tr.target)
	default:
		return fmt.Sprintf("%s at write %d (%s)", tr.what, tr.write, tr.target)
	}
}

// plan is the same for the explorer.
func (tr injection) plan() explore.Plan {
	if tr.call > 0 {
		return explore.Plan{{Kind: explore.Shutdown, At: tr.call}}
	}
	return explore.Plan{{Kind: planKinds[tr.what], At: tr.write}}
}

var planKinds = map[string]explore.Kind{
	crashBefore: explore.CrashBefore, crashAfter: explore.CrashAfter, conflict: explore.Conflict, fault: explore.Failed, lostAnswer: explore.Lost,
}

const (
	crashBefore = "crash before"
	crashAfter  = "crash after"
	conflict    = "a conflict"
	fault       = "a fault of the server"
	lostAnswer  = "a lost answer"
)

// injections are those that happen to a story: all, or, of a long one, as many of each kind as can be waited for.
func injections(t testing.TB, reference *scenarioRun) (all []injection) {
	t.Helper()
	if len(reference.writes) > maxInjections || len(reference.calls) > maxInjections {
		t.Logf("kopftest: the story is long: of its %d writes and %d calls, %d each are tried, evenly spread. Shorter stories, one for each thing, show all",
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

// maxInjections of each kind take some seconds: the story is told for each of them.
const maxInjections = 100

// spread are the numbers below n, or as many of them as there are troubles, the first and the last among them.
func spreadIndexes(n int) (chosen []int) {
	tries := min(n, maxInjections)
	for k := range tries {
		chosen = append(chosen, k*(n-1)/max(1, tries-1))
	}
	return chosen
}
