package explore

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
)

// Options are choices for [Explore].
type Options struct {
	// Pairs adds plans of two faults.
	Pairs bool
	// Sample is how many plans are run at most, evenly spread; 0: all.
	Sample int
	// Skip reports whether a plan is left out; nil: none is.
	Skip func(Plan) bool
	// First stops at the first violation.
	First bool
	// Only is the one plan that is run, some times over; nil: those that follow from the reference run.
	Only Plan
}

// A Report is what [Explore] has found.
type Report struct {
	// Made are the plans before pruning; Pruned could have no effect; Ran were run; Idle of them were not struck by all their faults.
	Made, Pruned, Ran, Idle int
	Violations              []Violation
	// Phases counts what faults have struck, such as "crash-after: patch widgets status [progress status]".
	Phases map[string]int
	// Reference is the run without faults.
	Reference *Run
}

// A Violation is a plan, and what was wrong after it. The same kind of violation may show after many plans, with other values.
type Violation struct {
	Plan       Plan
	Kind, Text string
	// Run is the run in which it showed.
	Run *Run
}

// Kinds returns the violations by their kinds, in the order in which they were found.
func (r *Report) Kinds() iter.Seq2[string, []Violation] {
	return func(yield func(string, []Violation) bool) {
		var kinds []string
		byKind := map[string][]Violation{}
		for _, v := range r.Violations {
			if byKind[v.Kind] == nil {
				kinds = append(kinds, v.Kind)
			}
			byKind[v.Kind] = append(byKind[v.Kind], v)
		}
		for _, kind := range kinds {
			if !yield(kind, byKind[kind]) {
				return
			}
		}
	}
}

// repetitions is how often a plan is run that is run alone: the order of goroutines differs from run to run.
const repetitions = 5

// Explore runs the story without faults, and then under each plan.
func Explore(t *testing.T, run Runner, options Options) *Report {
	t.Helper()
	ref := run(t, nil)
	out := &Report{Reference: ref, Phases: map[string]int{}}
	if out.Violations = ref.ownViolations(nil); len(out.Violations) > 0 {
		return out
	}
	plans := make([]Plan, 0, repetitions)
	if options.Only != nil {
		for range repetitions {
			plans = append(plans, options.Only)
		}
	} else {
		plans, out.Pruned = Plans(ref, options.Pairs)
	}
	out.Made = len(plans) + out.Pruned
	if options.Skip != nil {
		plans = slices.DeleteFunc(plans, options.Skip)
	}
	for _, plan := range sample(plans, options.Sample) {
		again := run(t, plan)
		out.Ran++
		if again.Injected < len(plan) {
			out.Idle++
		}
		for _, f := range plan {
			out.Phases[ref.phase(f)]++
		}
		out.Violations = append(out.Violations, ref.violations(plan, again)...)
		if (options.Only != nil || options.First) && len(out.Violations) > 0 {
			break
		}
	}
	return out
}

// sample takes so many plans, evenly spread.
func sample(plans []Plan, most int) (chosen []Plan) {
	if most == 0 || len(plans) <= most {
		return plans
	}
	for n := range most {
		chosen = append(chosen, plans[n*len(plans)/most])
	}
	return chosen
}

// broken is what is wrong with a run whatever others are like.
func (r *Run) ownViolations(plan Plan) (out []Violation) {
	if r.Problem != "" {
		out = append(out, Violation{plan, "no end", r.Problem, r})
	}
	for _, text := range r.Findings {
		out = append(out, Violation{plan, text, text, r})
	}
	return out
}

// violations compares a run with a reference run.
func (r *Run) violations(plan Plan, again *Run) []Violation {
	out := again.ownViolations(plan)
	if again.Problem != "" {
		return out
	}
	if kind, text := r.Differs(again); text != "" {
		out = append(out, Violation{plan, kind, text, again})
	}
	if text := r.repeatedCalls(again); text != "" {
		out = append(out, Violation{plan, "repeated", text, again})
	}
	if len(again.LateWrites) > 2*len(r.LateWrites) {
		text := fmt.Sprintf("the operator does not stay at rest: in the hour after the end it has written %d times (%v), and %d times without faults",
			len(again.LateWrites), again.LateWrites[:min(3, len(again.LateWrites))], len(r.LateWrites))
		out = append(out, Violation{plan, "no rest", text, again})
	}
	return out
}

// repeated returns the calls for work whose outcome was already written as often as it was due.
func (r *Run) repeatedCalls(again *Run) string {
	expected := map[string]int{}
	for _, c := range r.Calls {
		expected[c.Name] = max(expected[c.Name], c.RecordedBefore+1)
	}
	var names []string
	for _, c := range again.Calls {
		if c.RecordedBefore >= cmp.Or(expected[c.Name], 1) && !slices.Contains(names, c.Text) {
			names = append(names, c.Text)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "called although the outcome was written: " + strings.Join(names, ", ")
}

// Differs returns the first difference between the scenes of two runs, with the calls that the other one has more often, of whose handlers one may
// be at fault; and the kind of the difference. Both are empty if nothing differs.
func (r *Run) Differs(other *Run) (kind, text string) {
	kind, text = compareSnapshots(r.Snapshots, other.Snapshots)
	if text == "" {
		return "", ""
	}
	expected := map[string]int{}
	for _, c := range r.Calls {
		expected[c.Text]++
	}
	var again []string
	for _, c := range other.Calls {
		if expected[c.Text]--; expected[c.Text] < 0 && !slices.Contains(again, c.Text) {
			again = append(again, c.Text)
		}
	}
	if len(again) > 0 {
		text += "; called again: " + strings.Join(again, ", ")
	}
	return kind, text
}
