package kopftest

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"k8s.io/utils/dump"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A Trial is an operator with a little story, for [Check].
type Trial struct {
	// Given is the world before it; its Faults and For are not used.
	Given Given
	// Operator declares the operator, anew for each of its lives.
	Operator func() []kopf.Option
	// Story is what users do, step by step; before each, and after the last, the operator comes to rest.
	Story []func(t testing.TB, c *Cluster)
	// Outside is the state of what handlers have to do with outside of the cluster, such as a cloud made up for the test: it is
	// to be the same whenever the operator is at rest, whatever has happened. Pointers are followed.
	Outside func() any
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
// The function makes a new trial for each time, with a new world outside. What it makes is made in a bubble of testing/synctest; the
// test must not be in one.
func Check(t *testing.T, setup func() Trial) {
	t.Helper()
	for _, finding := range findings(t, setup) {
		t.Errorf("kopftest: %s", finding)
	}
}

// findings tells the story in all ways; each finding is told once.
func findings(t *testing.T, setup func() Trial) (all []string) {
	t.Helper()
	calm := rehearse(t, setup, trouble{})
	add := func(found ...string) {
		for _, text := range found {
			if text != "" && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	add(blindWrites(calm.writes)...)
	add(calm.stubborn)
	if calm.problem != "" {
		add(trouble{}.when() + ": " + calm.problem)
		return all
	}
	if len(calm.calls) == 0 {
		add("no handler was called in the whole story: the trial shows nothing. Give it an object of a kind that the operator has handlers for, " +
			"which their filters let through, or have the story make one")
		return all
	}
	var differences differences
	for _, tr := range troublesOf(t, calm) {
		again := rehearse(t, setup, tr)
		add(again.stubborn)
		if again.problem != "" {
			differences.add(again.problem, fmt.Sprintf("%s: %s", tr.when(), again.problem))
			continue
		}
		if kind, differs := calm.compare(again); differs != "" {
			differences.add(kind, fmt.Sprintf("%s, it is not as it would have been: %s%s", tr.when(), differs, calm.calledAgain(again)))
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
type trouble struct {
	write  int    // counted from 1
	what   string // crash, crash after, conflict, fault, lost
	call   int    // counted from 1: a shutdown while this one is under way
	target string // for people
}

// when is for the end of a sentence.
func (tr trouble) when() string {
	if tr == (trouble{}) {
		return "without any trouble"
	}
	return "after " + tr.String()
}

func (tr trouble) String() string {
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

const (
	crashBefore = "crash before"
	crashAfter  = "crash after"
	conflict    = "a conflict"
	fault       = "a fault of the server"
	lostAnswer  = "a lost answer"
)

// troublesOf are those that happen to a story: all, or, of a long one, as many of each kind as can be waited for.
func troublesOf(t testing.TB, calm *rehearsal) (all []trouble) {
	t.Helper()
	if len(calm.writes) > mostTroubles || len(calm.calls) > mostTroubles {
		t.Logf("kopftest: the story is long: of its %d writes and %d calls, %d each are tried, evenly spread. Shorter stories, one for each thing, show all",
			len(calm.writes), len(calm.calls), mostTroubles)
	}
	for _, i := range spread(len(calm.writes)) {
		for _, what := range []string{crashBefore, crashAfter, conflict, fault, lostAnswer} {
			all = append(all, trouble{write: i + 1, what: what, target: calm.writes[i].String()})
		}
	}
	for _, i := range spread(len(calm.calls)) {
		all = append(all, trouble{call: i + 1, target: calm.calls[i].String()})
	}
	return all
}

// mostTroubles of each kind take some seconds: the story is told for each of them.
const mostTroubles = 100

// spread are the numbers below n, or as many of them as there are troubles, the first and the last among them.
func spread(n int) (chosen []int) {
	tries := min(n, mostTroubles)
	for k := range tries {
		chosen = append(chosen, k*(n-1)/max(1, tries-1))
	}
	return chosen
}

// A rehearsal is the story as it was told once.
type rehearsal struct {
	calls    []Call
	writes   []Write
	scenes   []scene // at rest: in the beginning, and after each step
	stubborn string  // a handler that does not end
	problem  string  // why the story could not be told to its end
}

// A scene is how it is when the operator is at rest.
type scene struct {
	state   map[string]any
	outside string // for people
	dump    string // pointers followed
}

// rehearse tells the story in a bubble of its own.
func rehearse(t *testing.T, setup func() Trial, tr trouble) *rehearsal {
	t.Helper()
	out := &rehearsal{}
	synctest.Test(t, func(t *testing.T) {
		trial := setup()
		awaitNow(t, trial.Given.Now)
		trial.Given.check(t)
		s := &stage{trial: trial, trouble: tr, cluster: trial.Given.cluster(t), out: out}
		s.play(t)
	})
	return out
}

// A stage is where the story is told.
type stage struct {
	trial   Trial
	trouble trouble
	cluster *Cluster
	out     *rehearsal

	current *Operator
	lives   int
}

func (s *stage) play(t *testing.T) {
	t.Helper()
	s.launch(t)
	s.rest(t)
	for i, step := range s.trial.Story {
		if s.out.problem != "" {
			break
		}
		s.tell(t, i+1, step)
		s.rest(t)
	}
	s.finish()
}

// tell has one step of the story happen. If that ends the test, it ends the operator, too: it must not outlive its bubble.
func (s *stage) tell(t *testing.T, number int, step func(testing.TB, *Cluster)) {
	t.Helper()
	failed, returned := t.Failed(), false
	defer func() {
		if t.Failed() && !failed {
			t.Logf("kopftest: that was in step %d of the story, %s", number, s.trouble.when())
		}
		if !returned {
			_ = s.current.end() // the test has failed already
		}
	}()
	step(t, s.cluster)
	returned = true
}

// launch starts the next life of the operator. The trouble is for the first.
func (s *stage) launch(t *testing.T) {
	t.Helper()
	o := s.cluster.operator(nil)
	if s.lives++; s.lives == 1 {
		s.arm(o)
	}
	o.start(t, func(mgr manager.Manager) error { return kopf.SetupWithManager(mgr, s.trial.Operator()...) }, logr.Discard())
	s.current = o
}

// arm has the trouble happen to an operator.
func (s *stage) arm(o *Operator) {
	tr := s.trouble
	switch {
	case tr.call > 0:
		var calls atomic.Int64
		o.watcher.began = func(Call) {
			if calls.Add(1) == int64(tr.call) {
				o.stop()
			}
		}
	case tr.what == crashBefore || tr.what == crashAfter:
		o.link.cutAt, o.link.cutLate = tr.write, tr.what == crashAfter
		o.link.onCut = func() { o.stop() }
	case tr.what == conflict:
		o.link.refuseAt(tr.write, Fault{Code: 409})
	case tr.what == fault:
		o.link.refuseAt(tr.write, Fault{Code: 500})
	case tr.what == lostAnswer:
		o.link.refuseAt(tr.write, Fault{Lost: true})
	}
}

// rest waits until the operator has nothing left to do; if it has ended on the way, a new one takes its place.
func (s *stage) rest(t *testing.T) {
	t.Helper()
	for s.out.problem == "" {
		left := s.current.quiet(t.Context())
		if !s.current.hasEnded() && !s.current.stopping.Load() {
			s.out.problem = left
			s.look()
			return
		}
		s.finish()
		s.launch(t)
	}
}

// look takes note of how it is.
func (s *stage) look() {
	now := scene{state: stateOf(s.cluster.server.All(), s.trial.Ignore)}
	if s.trial.Outside != nil {
		outside := s.trial.Outside()
		now.outside, now.dump = fmt.Sprintf("%+v", outside), dump.ForHash(outside)
		if strings.Contains(now.outside, "0x") { // where it is in memory
			now.outside = now.dump
		}
	}
	s.out.scenes = append(s.out.scenes, now)
}

// finish ends the present life, and takes over what is known of it.
func (s *stage) finish() {
	o := s.current
	err := o.end()
	if stubborn := o.stubborn; stubborn != "" {
		s.out.stubborn = stubborn
	} else if err != nil && s.out.problem == "" {
		s.out.problem = err.Error()
	}
	s.out.calls = append(s.out.calls, o.Calls()...)
	s.out.writes = append(s.out.writes, o.Writes()...)
}
