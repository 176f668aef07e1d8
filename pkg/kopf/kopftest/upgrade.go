package kopftest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Versions are two versions of an operator, for [Upgrade].
type Versions struct {
	// Scenario is the old version, the initial state and the user changes. Its fields ExternalState and Ignore are not used.
	Scenario
	// New returns the options of the new version. It is called each time the new version starts. If the handlers need the manager, use
	// NewSetup instead.
	New func() []kopf.Option
	// NewSetup replaces New for an operator with its own setup function.
	NewSetup func(mgr manager.Manager) error
	// Allow lists what may happen after an upgrade or a rollback although nobody has edited the object, as patterns of [path.Match]. They match
	// the short forms of writes and of calls, such as "patch databases/*" and "resize (update) of default/*". Each pattern must match something.
	Allow []string
}

// Upgrade tests whether a new version of an operator can replace the old one at any moment, and whether it can be rolled back. It runs the
// scenario in memory and in virtual time, once for each of these moments:
//
//   - after each step, when the old version has no pending work;
//   - after a crash of the old version before or after one of its writes. If there are more than 100 writes, it tries 100 of them.
//
// The new version then handles the remaining steps. When it has no pending work, the old version takes over again, and all objects of the
// handled kinds are deleted. One more run deletes them without a rollback. Upgrade reports
//
//   - calls and writes without a reason. A version that takes over at rest should call no handlers for creations, updates and deletions, and
//     write nothing for two minutes. If it does, it often can't read the stored state, or the template of a child has changed;
//   - a handler that is called again for a cause after its success was stored, and a stored success that the new version ignores because
//     the handler's id has changed;
//   - an annotation, a label or a finalizer that stays on an object which has changed after the upgrade, although the new version alone would
//     not have set it;
//   - objects that remain after their deletion, and versions that don't finish their work.
//
// Timers, daemons, resume handlers and reconcile handlers may write without an edit, too: declare their writes in [Versions.Allow], like
// everything else that the new version is meant to do at once. In a rollback, the old version may find what it can't know, so annotations of
// the new version may stay.
//
// Both versions are functions of the test, so Upgrade tests changes of the operator, but not of the library. The function setup must return
// new Versions with new external state, such as a fake cloud, for each run. It is called in a testing/synctest bubble, so the test must not
// run in one.
func Upgrade(t *testing.T, setup func() Versions) {
	t.Helper()
	for _, finding := range upgradeFindings(t, setup) {
		t.Errorf("kopftest: %s", finding)
	}
}

// check returns what is wrong with the versions, or an empty text.
func (v Versions) check() string {
	switch {
	case v.New == nil && v.NewSetup == nil:
		return "Versions.New is missing: set it to a function that returns the options of the new version"
	case v.New != nil && v.NewSetup != nil:
		return "Versions.New and Versions.NewSetup are both set: remove one of them"
	case v.Operator == nil && v.Setup == nil:
		return "Versions.Operator is missing: set it to a function that returns the options of the old version"
	}
	for _, pattern := range v.Allow {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Sprintf("Versions.Allow: the pattern %q is malformed: see path.Match", pattern)
		}
	}
	return ""
}

// upgradeFindings runs the scenario with all upgrades, and returns each kind of finding once.
func upgradeFindings(t *testing.T, setup func() Versions) []string {
	t.Helper()
	var first Versions
	synctest.Test(t, func(*testing.T) { first = setup() })
	if problem := first.check(); problem != "" {
		return []string{problem}
	}
	reference := runScenario(t, func() Scenario { return setup().Scenario }, runOptions{when: "without an upgrade", waitBeforeSnapshot: true})
	if reference.problem != "" {
		return []string{"without an upgrade: " + reference.problem}
	}
	if len(reference.calls) == 0 {
		return []string{"the old version calls no handler, so the scenario tests nothing: give it an object of a kind that it handles"}
	}
	var all differences
	used := map[string]bool{}
	run := func(u *upgrade) *upgrade {
		u.used = used
		u.run(t, setup)
		for _, f := range u.found {
			all.add(f.kind, u.when()+": "+f.text)
		}
		return u
	}
	alone := run(&upgrade{onlyNew: true})
	for step := range len(first.Steps) + 1 {
		run(&upgrade{atRest: true, step: step, alone: alone.metadata})
	}
	run(&upgrade{atRest: true, step: len(first.Steps), alone: alone.metadata, stays: true})
	for _, i := range spreadIndexes(len(reference.writes)) {
		for _, what := range []string{crashBefore, crashAfter} {
			run(&upgrade{injection: injection{write: i + 1, what: what, target: reference.writes[i].String()}, alone: alone.metadata})
		}
	}
	found := all.summaries()
	for _, pattern := range first.Allow {
		if !used[pattern] {
			found = append(found, fmt.Sprintf("Versions.Allow: nothing matches %q: remove it", pattern))
		}
	}
	return found
}

// An upgrade is one run of the scenario with both versions.
type upgrade struct {
	injection injection
	atRest    bool // the new version starts when the old one has no pending work after the step
	step      int
	onlyNew   bool                       // the new version handles the whole scenario
	stays     bool                       // there is no rollback before the deletion
	alone     map[string]map[string]bool // the metadata of each object in the run with only the new version
	used      map[string]bool            // the patterns of Versions.Allow that were needed

	versions Versions
	runner   *scenarioRunner
	isNew    bool
	kinds    map[schema.GroupVersionKind]bool // the kinds that one of the versions handles
	before   []map[string]any                 // the objects when the new version started
	oldKinds []*engine.Engine
	found    []upgradeFinding
	metadata map[string]map[string]bool // of each object at the end of the scenario
}

type upgradeFinding struct{ kind, text string }

func (u *upgrade) when() string {
	switch {
	case u.onlyNew:
		return "the new version alone"
	case u.stays:
		return "after an upgrade without a rollback"
	case u.atRest && u.step == 0:
		return "after an upgrade before the first step"
	case u.atRest:
		return fmt.Sprintf("after an upgrade after step %d", u.step)
	}
	return "after an upgrade " + strings.TrimPrefix(u.injection.when(), "after ")
}

func (u *upgrade) reportf(kind, format string, args ...any) {
	u.found = append(u.found, upgradeFinding{kind, fmt.Sprintf(format, args...)})
}

// run runs the scenario. The old version comes back when the new one has no pending work any more, and then all objects are deleted.
func (u *upgrade) run(t *testing.T, setup func() Versions) {
	t.Helper()
	options := runOptions{when: u.when(), waitBeforeSnapshot: true}
	if u.injection != (injection{}) {
		options.plan = u.injection.plan()
	}
	options.next, options.steps = u.setup, u.steps
	out := runScenario(t, func() Scenario { u.versions = setup(); u.isNew = u.onlyNew; return u.versions.Scenario }, options)
	switch {
	case out.problem != "":
		u.reportf("problem "+out.problem, "%s", out.problem)
	case len(options.plan) > 0 && out.run.Injected == 0:
		u.reportf("no crash", "the old version does not send this write in each run: make the scenario deterministic")
	}
	if out.unstoppable != "" {
		u.reportf(out.unstoppable, "%s", out.unstoppable)
	}
	for i, c := range out.run.Calls {
		if c.RecordedBefore > 0 && !resumes(out.calls[i]) {
			u.reportf("repeated call "+out.calls[i].Handler, "the handler is called again after its success was stored: %s", c.Text)
		}
	}
}

// resumes reports whether the handler of a call is also called once in each process.
func resumes(c Call) bool {
	if c.engine == nil {
		return false
	}
	handler, found := c.engine.Handlers.Get(c.Handler)
	return found && handler.Resumes()
}

// setup returns the setup function of the operator that starts next. After a crash, that is the new version.
func (u *upgrade) setup(s *scenarioRunner, starts int) func(manager.Manager) error {
	if u.runner = s; starts > 0 && u.injection != (injection{}) && !u.isNew && u.before == nil {
		u.beginNew()
	}
	scenario := u.versions.Scenario
	if u.isNew {
		scenario.Operator, scenario.Setup = u.versions.New, u.versions.NewSetup
	}
	return scenario.setup()
}

func (u *upgrade) beginNew() {
	u.isNew, u.before = true, u.runner.cluster.server.All()
	u.oldKinds = u.engines()
}

func (u *upgrade) engines() []*engine.Engine {
	o, _ := u.runner.current()
	all, _ := o.tracker.state()
	return all
}

// steps runs the steps of the scenario, with the upgrade and the rollback.
func (u *upgrade) steps(t *testing.T, s *scenarioRunner) {
	t.Helper()
	u.runner = s
	for i := range len(u.versions.Steps) + 1 {
		if s.problem() != "" {
			return
		}
		if i > 0 {
			s.runStep(t, i, u.versions.Steps[i-1])
			s.settle(t)
		}
		if u.atRest && u.step == i {
			u.switchAtRest(t, "the new version", u.beginNew)
		}
	}
	if s.problem() != "" {
		return
	}
	u.metadata = metadataOf(s.cluster.server.All())
	if u.onlyNew {
		return
	}
	u.findIgnoredRecords()
	u.findLeftovers()
	if u.noteKinds(); !u.stays {
		u.switchAtRest(t, "the old version, after a rollback,", func() { u.isNew = false })
		u.noteKinds()
	}
	if s.problem() == "" {
		u.deleteAll(t)
	}
}

// switchAtRest starts the other version when the current one has no pending work, and reports what it does to objects that nobody has
// edited.
func (u *upgrade) switchAtRest(t *testing.T, name string, begin func()) {
	t.Helper()
	s := u.runner
	if s.problem() != "" {
		return
	}
	begin()
	o, started := s.current()
	o.stop()
	<-started
	s.settle(t)
	if s.problem() != "" {
		return
	}
	next, _ := s.current()
	for _, c := range next.Calls() {
		isOfChange := slices.Contains([]kopf.Reason{kopf.ReasonCreate, kopf.ReasonUpdate, kopf.ReasonDelete}, c.Reason)
		short := fmt.Sprintf("%s (%s) of %s", c.Handler, c.Reason, c.Object)
		if isOfChange && !u.allows(short) {
			u.reportf(fmt.Sprint("call ", name, c.Handler, c.Reason), "%s calls %s although nobody has edited the object; its diff is %.300s", name, short, c.changed)
		}
	}
	for _, w := range next.Writes() {
		if !w.DryRun && !u.allows(w.String()) {
			u.reportf(fmt.Sprint("write ", name, w.Verb, w.Resource, w.Subresource), "%s sends %s although nobody has edited the object: %.300s", name, w, fmt.Sprint(w.Body))
		}
	}
}

func (u *upgrade) allows(short string) (allowed bool) {
	for _, pattern := range u.versions.Allow {
		if ok, err := path.Match(pattern, short); ok && err == nil {
			u.used[pattern], allowed = true, true
		}
	}
	return allowed
}

// noteKinds adds the kinds that the current version handles.
func (u *upgrade) noteKinds() {
	if u.kinds == nil {
		u.kinds = map[schema.GroupVersionKind]bool{}
	}
	for _, e := range u.engines() {
		u.kinds[e.GVK] = true
	}
}

// findIgnoredRecords reports successes that the old version had stored for unfinished causes, and that the new version does not know.
func (u *upgrade) findIgnoredRecords() {
	knows := func(gvk fmt.Stringer, id string) bool {
		return slices.ContainsFunc(u.engines(), func(e *engine.Engine) bool {
			_, found := e.Handlers.Get(id)
			return e.GVK.String() == gvk.String() && (found || e.Handlers.Any(func(h *invoke.Handler) bool { return slices.Contains(h.EarlierIDs, id) }))
		})
	}
	for _, e := range u.oldKinds {
		for _, content := range u.before {
			obj := newUnstructured(content)
			if obj.GroupVersionKind() != e.GVK {
				continue
			}
			for _, id := range e.Handlers.IDs() {
				if record, err := e.Store.Fetch(obj, id); err == nil && record != nil && record.Success && !knows(e.GVK, id) {
					u.reportf("ignored "+id, "the handler %q had succeeded for %s %s, and the new version ignores that: if its id has changed, add RenamedFrom(%q)",
						id, obj.GetKind(), client.ObjectKeyFromObject(obj), id)
				}
			}
		}
	}
}

// metadataOf returns the annotations, labels and finalizers of each object. Keys with uids are left out.
func metadataOf(objects []map[string]any) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for _, content := range objects {
		obj := newUnstructured(content)
		found := map[string]bool{}
		for key := range obj.GetAnnotations() {
			if !strings.Contains(key, string(obj.GetUID())) {
				found["annotation "+key] = true
			}
		}
		for key := range obj.GetLabels() {
			found["label "+key] = true
		}
		for _, name := range obj.GetFinalizers() {
			found["finalizer "+name] = true
		}
		all[fullName(obj)] = found
	}
	return all
}

func fullName(obj *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s", obj.GetKind(), client.ObjectKeyFromObject(obj))
}

// findLeftovers reports what stays on objects that have changed after the upgrade, unless the new version alone sets it, too.
func (u *upgrade) findLeftovers() {
	versions := map[types.UID]string{}
	for _, content := range u.before {
		obj := newUnstructured(content)
		versions[obj.GetUID()] = obj.GetResourceVersion()
	}
	for _, content := range u.runner.cluster.server.All() {
		obj := newUnstructured(content)
		alone, exists := u.alone[fullName(obj)]
		if before, known := versions[obj.GetUID()]; !known || before == obj.GetResourceVersion() || !exists {
			continue
		}
		for _, what := range slices.Sorted(maps.Keys(u.metadata[fullName(obj)])) {
			if !alone[what] {
				u.reportf("leftover "+what, "the %s stays on %s, which has changed after the upgrade, although the new version alone would not set it", what, fullName(obj))
			}
		}
	}
}

// deleteAll deletes all objects of the handled kinds, and reports those that remain.
func (u *upgrade) deleteAll(t *testing.T) {
	t.Helper()
	s := u.runner
	handled := func() (all []*unstructured.Unstructured) {
		for _, content := range s.cluster.server.All() {
			obj := newUnstructured(content)
			if u.kinds[obj.GroupVersionKind()] {
				all = append(all, obj)
			}
		}
		return all
	}
	for _, obj := range handled() {
		if err := s.cluster.Client.Delete(t.Context(), obj); client.IgnoreNotFound(err) != nil {
			u.reportf("deletion", "deleting %s: %v", fullName(obj), err)
		}
	}
	<-time.After(time.Second)
	s.settle(t)
	for _, obj := range handled() {
		u.reportf("remains "+obj.GetKind(), "%s remains after its deletion, with the finalizers %q", fullName(obj), obj.GetFinalizers())
	}
}
