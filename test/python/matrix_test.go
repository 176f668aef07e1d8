package python

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The processes of a take-over. The first one handles objects before the change, so that resume handlers are called by the second one, which is
// killed in the states. The third one is of the other side.
const (
	preparing = "preparing"
	killed    = "killed"
	taking    = "taking-over"
)

// A takeOver moves objects in all states from one side to the other.
type takeOver struct {
	*suite
	place
	from, to  string
	scenarios []scenario
	damage    string                         // of the operator in Go
	limit     time.Duration                  // for the work of the process that takes over
	tamper    func(annotation string) string // changes annotations when no operator runs

	t       *testing.T
	log     *callLog
	ns      string
	before  map[string]thing // when nobody runs; missing if the object has already been deleted
	current *process
}

// problems are the violations of each scenario, by its name. Problems of all of them have the name "".
type problems map[string][]string

func (o *takeOver) run(t *testing.T) problems {
	o.t, o.ns, o.before = t, o.namespace(t), map[string]thing{}
	o.log = newCallLog(t, o.reply)
	if o.limit == 0 {
		o.limit = deadline
	}
	ctx := t.Context()

	o.start(o.from, preparing)
	for _, one := range o.scenarios {
		if one.created() {
			o.create(ctx, one)
		}
	}
	if found := o.await(ctx, deadline, o.prepared); len(found) > 0 {
		return found
	}
	o.current.kill()

	o.start(o.from, killed)
	for _, one := range o.scenarios {
		if !one.down {
			o.change(ctx, one, 2)
		}
	}
	if found := o.await(ctx, deadline, o.inState); len(found) > 0 {
		return found
	}
	o.current.kill()

	for _, one := range o.scenarios {
		if obj := o.get(t, o.ns, one.name()); obj != nil {
			if o.tamper != nil {
				annotations := obj.GetAnnotations()
				for key, value := range annotations {
					annotations[key] = o.tamper(value)
				}
				obj.SetAnnotations(annotations)
				must(t, o.Update(ctx, obj))
			}
			o.before[one.name()] = obj
		}
		switch {
		case one.down:
			o.change(ctx, one, 2)
		case one.edited:
			o.edit(t, o.ns, one.name(), 3)
		}
	}

	o.start(o.to, taking)
	found := o.await(ctx, o.limit, o.check)
	if len(found) > 0 {
		t.Logf("the output of %s:\n%s", o.to, o.current.tail(30))
	}
	return found
}

func (o *takeOver) start(side, name string) {
	declared := table{
		Server: o.log.URL, Process: name, Namespace: o.ns, Store: o.store, Prefix: o.prefix, Finalizer: o.finalizer, Damage: o.damage,
	}
	for _, one := range o.scenarios {
		declared.Handlers = append(declared.Handlers, one.handlers()...)
	}
	o.current = o.launch(o.t, side, declared)
}

// reply answers a handler.
func (o *takeOver) reply(c call, earlier int) answer {
	for _, one := range o.scenarios {
		if one.name() != c.Object {
			continue
		}
		for _, h := range one.all() {
			if h.call != c.Handler {
				continue
			}
			answers := once
			switch {
			case c.Process == killed && len(h.before) > 0:
				answers = h.before
			case c.Process == taking && len(h.after) > 0:
				answers = h.after
			}
			a := answers[min(earlier, len(answers)-1)]
			if a.Do == doSucceed && c.Process != preparing {
				a.Result = map[string]any{"by": c.Process}
			}
			return a
		}
	}
	return permanent
}

// await polls until check has no problems with any scenario.
func (o *takeOver) await(ctx context.Context, limit time.Duration, check func(scenario, thing) []string) problems {
	var found problems
	await(ctx, limit, func() (all []string) {
		found = problems{}
		if exited := o.current.running(); exited != nil {
			found[""] = exited
		}
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(o.gvk)
		if err := o.List(ctx, list, client.InNamespace(o.ns)); err != nil {
			found[""] = append(found[""], err.Error())
		}
		objects := map[string]thing{}
		for i := range list.Items {
			objects[list.Items[i].GetName()] = &list.Items[i]
		}
		for _, one := range o.scenarios {
			if wrong := check(one, objects[one.name()]); len(wrong) > 0 {
				found[one.name()] = wrong
			}
		}
		for _, wrong := range found {
			all = append(all, wrong...)
		}
		return all
	})
	return found
}

// prepared checks an object before the change.
func (o *takeOver) prepared(one scenario, obj thing) []string {
	switch {
	case !one.created():
		return nil
	case obj == nil:
		return []string{"the object is missing"}
	case one.cause == "delete":
		return o.hasFinalizer(obj, true)
	default:
		return append(o.isHandled(obj), o.leftovers(obj, o.from, o.from)...)
	}
}

// inState checks that the handlers of an object are in the state in which the operator is killed.
func (o *takeOver) inState(one scenario, obj thing) (wrong []string) {
	if one.down {
		if one.cause == "resume" { // without a change, the handlers are called by each process
			for _, h := range one.all() {
				wrong = append(wrong, o.hasCalls(one, h, killed)...)
			}
			if obj != nil {
				wrong = append(wrong, o.leftovers(obj, o.from, o.from)...)
			}
		}
		return wrong
	}
	if obj == nil {
		return []string{"the object is missing"}
	}
	for _, h := range one.all() {
		stored, err := o.record(obj, h.stored)
		if err != nil {
			wrong = append(wrong, err.Error())
			continue
		}
		reached := false
		switch h.at {
		case untouched:
			reached = true
		case waiting:
			reached = stored != nil && !stored.finished() && (h.subs != nil || stored.Retries >= len(h.before))
		case succeeded:
			reached = stored != nil && stored.Success
		case failed:
			reached = stored != nil && stored.Failure
		case blocked:
			reached = len(callsOf(o.log.of(one.name(), killed), h.call)) >= len(h.before)
		}
		if !reached {
			wrong = append(wrong, fmt.Sprintf("killed operator: the handler %s is not yet %s: its record is %+v", h.call, h.at, stored))
		}
	}
	return wrong
}

func (o *takeOver) hasCalls(one scenario, h handlerPart, process string) []string {
	if len(callsOf(o.log.of(one.name(), process), h.call)) == 0 {
		return []string{"the handler " + h.call + " was not yet called"}
	}
	return nil
}

func (o *takeOver) hasFinalizer(obj thing, want bool) []string {
	if slices.Contains(obj.GetFinalizers(), o.finalizerName()) != want {
		return []string{fmt.Sprintf("the finalizers are %q, and %s must be there: %t", obj.GetFinalizers(), o.finalizerName(), want)}
	}
	return nil
}

// check checks the finished work for an object.
func (o *takeOver) check(one scenario, obj thing) (wrong []string) {
	before := o.before[one.name()]
	for _, h := range one.all() {
		wrong = append(wrong, o.checkCalls(one, h, before)...)
	}
	if one.cause == "delete" {
		if obj != nil {
			wrong = append(wrong, fmt.Sprintf("the object still exists, with the finalizers %q", obj.GetFinalizers()))
		}
		return wrong
	}
	if obj == nil {
		return append(wrong, "the object is missing")
	}
	wrong = append(wrong, o.isHandled(obj)...)
	wrong = append(wrong, o.leftovers(obj, o.from, o.to)...)
	wrong = append(wrong, o.hasFinalizer(obj, false)...)
	for _, h := range one.all() {
		wrong = append(wrong, o.checkResult(one, h, obj)...)
	}
	return wrong
}

// checkCalls checks the calls of a handler by both operators.
func (o *takeOver) checkCalls(one scenario, h handlerPart, before thing) (wrong []string) {
	fail := func(format string, args ...any) { wrong = append(wrong, h.call+": "+fmt.Sprintf(format, args...)) }
	earlier, later := callsOf(o.log.of(one.name(), killed), h.call), callsOf(o.log.of(one.name(), taking), h.call)
	var stored *record
	if before != nil && !one.down {
		var err error
		if stored, err = o.record(before, h.stored); err != nil {
			fail("%v", err)
		}
	}
	again := resumedAgain.holds(o.from, o.to, one, h)
	for _, c := range slices.Concat(earlier, later) {
		reason := one.reason()
		if again && c.Process == taking && stored.finished() {
			reason = "resume"
		}
		if c.Cause != reason {
			fail("%s called it for the cause %s", c.Process, c.Cause)
		}
		wrong = append(wrong, checkDiff(one, h, c)...)
	}
	if h.subs == nil {
		for i, c := range earlier {
			if c.Retry != i {
				fail("the killed operator's call %d has the retry %d", i, c.Retry)
			}
		}
	}
	if stored.finished() && !again {
		if len(later) > 0 {
			fail("it had finished, and was called again %d times", len(later))
		}
		return wrong
	}
	want := max(len(h.after), 1)
	switch {
	case h.subs != nil: // called again after its sub-handlers have finished, or not
		if len(later) == 0 {
			fail("it was not called")
		}
		return wrong
	case len(later) != want:
		fail("it was called %d times instead of %d", len(later), want)
		return wrong
	}
	first := 0
	if stored != nil && !stored.finished() {
		first = stored.Retries
	}
	for i, c := range later {
		if c.Retry != first+i {
			fail("the call %d has the retry %d instead of %d", i, c.Retry, first+i)
		}
	}
	if stored.finished() {
		return wrong
	}
	due, err := stored.due()
	if err != nil {
		fail("%v", err)
	}
	// kopf rounds delays.
	if later[0].at.Before(due.Add(-100 * time.Millisecond)) {
		fail("it was called %s before its time", due.Sub(later[0].at))
	}
	return wrong
}

// checkDiff checks what a call sees of the change.
func checkDiff(one scenario, h handlerPart, c call) (wrong []string) {
	old, size := 1.0, 2.0
	if one.edited && c.Process == taking {
		size = 3
	}
	var want []any
	switch one.cause {
	case "update":
		want = []any{[]any{"change", []any{"spec", "size"}, old, size}}
	case "field":
		want = []any{[]any{"change", []any{}, old, size}}
	default:
		return nil
	}
	if strings.Contains(h.call, "/") && one.cause == "field" {
		return nil // kopf shows the whole diff to sub-handlers
	}
	if got, want := fmt.Sprint(c.Diff), fmt.Sprint(want); got != want {
		wrong = append(wrong, fmt.Sprintf("%s: %s called it with the diff %s instead of %s", h.call, c.Process, got, want))
	}
	gotOld, gotNew := c.Old, c.New
	if one.cause == "update" {
		gotOld, gotNew = sizeOf(c.Old), sizeOf(c.New)
	}
	if gotOld != old || gotNew != size {
		wrong = append(wrong, fmt.Sprintf("%s: %s called it with old %v and new %v", h.call, c.Process, gotOld, gotNew))
	}
	return wrong
}

func sizeOf(value any) any {
	object, _ := value.(map[string]any)
	size, _, _ := unstructured.NestedFieldNoCopy(object, "spec", "size")
	return size
}

// checkResult checks the result in the status.
func (o *takeOver) checkResult(one scenario, h handlerPart, obj thing) []string {
	got, ok, err := unstructured.NestedString(obj.Object, "status", h.stored, "by")
	switch {
	case err != nil:
		return []string{err.Error()}
	case h.fails && !resumedAgain.holds(o.from, o.to, one, h):
		if ok {
			return []string{h.call + ": the failed handler has the result " + got}
		}
	case h.fails:
	default:
		want := taking
		if h.at == succeeded && !resumedAgain.holds(o.from, o.to, one, h) {
			want = killed
		}
		if got != want {
			return []string{fmt.Sprintf("%s: the result is of %q instead of %q", h.call, got, want)}
		}
	}
	return nil
}

func (o *takeOver) create(ctx context.Context, one scenario) {
	o.t.Helper()
	obj := o.newThing(o.ns, one.name())
	obj.SetAnnotations(map[string]string{"example.com/note": "by a user"})
	must(o.t, o.Create(ctx, obj))
}

func (s *suite) newThing(namespace, name string) thing {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1), "color": "red"}}}
	obj.SetGroupVersionKind(s.gvk)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	obj.SetLabels(map[string]string{"case": name})
	return obj
}

// change causes the cause of a scenario. Resume handlers need no change.
func (o *takeOver) change(ctx context.Context, one scenario, size int) {
	o.t.Helper()
	switch one.cause {
	case "create", "create-resume":
		o.create(ctx, one)
	case "update", "field":
		o.edit(o.t, o.ns, one.name(), size)
	case "delete":
		must(o.t, o.Delete(ctx, o.newThing(o.ns, one.name())))
	}
}

func TestTakeOver(t *testing.T) {
	s := needKopf(t)
	for _, kept := range differences {
		t.Logf("a difference that is kept: %s: %s", kept.name, kept.reason)
	}
	for _, version := range versions {
		for _, place := range places {
			if *quick && place.name != "smart" {
				continue
			}
			for _, from := range []string{version, ours} {
				to, direction := ours, "to-ours"
				if from == ours {
					to, direction = version, "from-ours"
				}
				t.Run(strings.Join([]string{version, place.name, direction}, "/"), func(t *testing.T) {
					t.Parallel()
					all := scenarios(func(string, state) bool { return true })
					o := takeOver{suite: s, place: place, from: from, to: to, scenarios: all}
					found := o.run(t)
					for _, problem := range found[""] {
						t.Error(problem)
					}
					for _, one := range all {
						t.Run(one.cause+"/"+one.state.name, func(t *testing.T) {
							for _, problem := range found[one.name()] {
								t.Error(problem)
							}
						})
					}
				})
			}
		}
	}
}
