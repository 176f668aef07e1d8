package explore

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
)

// Options configure [Explore].
type Options struct {
	// Pairs adds plans with two faults.
	Pairs bool
	// Sample is the maximum number of plans, evenly spread over all plans; 0 means all.
	Sample int
	// Skip reports whether to skip a plan. By default, none is skipped.
	Skip func(Plan) bool
	// First stops the exploration at the first violation.
	First bool
	// Only is the only plan to run, up to five times, until there is a violation. By default, Explore runs the plans of [Plans].
	Only Plan
}

// A Report is the result of [Explore].
type Report struct {
	// Made is the number of plans before pruning, and Pruned is how many of them can't have an effect. Ran counts the runs after the
	// reference run. Idle counts those in which not all faults of the plan occurred.
	Made, Pruned, Ran, Idle int
	Violations              []Violation
	// Phases counts the faults of the plans that were run, by kind and by write or watch event, such as "crash-after: patch widgets status
	// [progress status]".
	Phases map[string]int
	// Reference is the run without faults.
	Reference *Run
}

// A Violation is a broken rule in the run of a plan. Kind identifies the rule, and Text describes the violation to users. Violations of one
// kind can occur under many plans, with different values.
type Violation struct {
	Plan       Plan
	Kind, Text string
	// Run is the run with the violation.
	Run *Run
}

// ViolationsByKind returns the violations by kind, in the order in which the kinds first occurred.
func (r *Report) ViolationsByKind() iter.Seq2[string, []Violation] {
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

// repetitions limits the runs of Options.Only. One run can miss a violation, because the order of goroutines differs from run to run.
const repetitions = 5

// Explore runs the scenario without faults, and then once for each plan. If the run without faults already has violations, Explore returns
// only these.
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

func sample(plans []Plan, limit int) (chosen []Plan) {
	if limit == 0 || len(plans) <= limit {
		return plans
	}
	for n := range limit {
		chosen = append(chosen, plans[n*len(plans)/limit])
	}
	return chosen
}

// ownViolations returns the violations that are visible without the reference run.
func (r *Run) ownViolations(plan Plan) (out []Violation) {
	if r.Problem != "" {
		out = append(out, Violation{plan, "not finished", r.Problem, r})
	}
	for _, text := range r.Findings {
		out = append(out, Violation{plan, text, text, r})
	}
	return out
}

// violations compares a run with the reference run.
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
		text := fmt.Sprintf("the operator does not stay quiet: it wrote %d times in the hour after the last step (%v), expected %d times as without faults",
			len(again.LateWrites), again.LateWrites[:min(3, len(again.LateWrites))], len(r.LateWrites))
		out = append(out, Violation{plan, "late writes", text, again})
	}
	return out
}

// repeatedCalls describes calls that were repeated too often after their outcome had been written: more often than any call with the same
// name in the reference run. If there are no such calls, it returns an empty string.
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

// Differs returns the first difference between the quiet states of two runs, and its kind. The text also names the calls that only the
// other run has, because one of these handlers may have caused the difference. Both results are empty if there is no difference.
func (r *Run) Differs(other *Run) (kind, text string) {
	kind, text = compareQuietStates(r.QuietStates, other.QuietStates)
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
