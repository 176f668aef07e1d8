package parity

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The states of a row, in the order of the counts.
const (
	tested    = "tested"
	different = "different"
	nothing   = "n/a in Go"
	missing   = "missing"
)

var states = []string{tested, different, nothing, missing}

// basis is what a difference rests on: a rule that the page explains, a decision, or the admission that there is none.
var basis = regexp.MustCompile(`\b(?:B|MIG)-\d\d\b|\]\(decisions/\d{4}-|no rule yet|No rule yet`)

// check tells what is wrong with the page, and what to do about it.
func check(text string, named map[string]string) (problems []string) {
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	all := ids()
	rows, counts := parse(text, problemf)
	for _, id := range all {
		row, listed := rows[id]
		_, isNamed := named[id]
		switch {
		case !listed:
			problemf("%s is not on the page: add a line for it", id)
		case row.state == tested && !isNamed:
			problemf("%s is said to be tested, but no test names it: write one, name the row in the test that proves it, or say that it is missing", id)
		case row.state == missing && isNamed:
			problemf("%s is said to be missing, but %s names it: if that proves it, it is tested", id, named[id])
		case row.state != tested && row.why == "":
			problemf("%s is %q without a reason: say why", id, row.state)
		case row.state == different && !basis.MatchString(row.why):
			problemf("%s is different: name the rule or the decision behind it, or say that there is no rule yet", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if !slices.Contains(all, id) {
			problemf("%s is on the page, but there is no such row: remove it", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(all, id) {
			problemf("%s is named in %s, but there is no such row: correct the test", id, named[id])
		}
	}
	return append(problems, checkCounts(rows, counts)...)
}

// checkCounts compares the table at the top with the rows.
func checkCounts(rows map[string]row, counts map[string][]int) (problems []string) {
	want := map[string][]int{"all": make([]int, 1+len(states))}
	for _, area := range areas {
		want[area.name] = make([]int, 1+len(states))
	}
	for id, row := range rows {
		column := 1 + slices.Index(states, row.state)
		for _, line := range []string{areaOf(id), "all"} {
			if sums, known := want[line]; known {
				sums[0]++
				sums[column]++
			}
		}
	}
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(counts[line], want[line]) {
			problems = append(problems, fmt.Sprintf("the counts of %s are %v: correct them to %v (rows, %s)",
				line, counts[line], want[line], strings.Join(states, ", ")))
		}
	}
	return problems
}

// A row is one line of the page.
type row struct{ state, why string }

var (
	rowLine   = regexp.MustCompile(`^\| ([A-Z]+-\d+) \|`)
	countLine = regexp.MustCompile(`^\| ([A-Z]+|all) ((?:\| \d+ )+)\|$`)
	ruleLine  = regexp.MustCompile(`^\| (?:B|MIG)-\d\d \|`)
)

// parse reads the tables of the page: the rows, and the counts.
func parse(text string, problemf func(string, ...any)) (rows map[string]row, counts map[string][]int) {
	rows, counts = map[string]row{}, map[string][]int{}
	for line := range strings.SplitSeq(text, "\n") {
		if match := countLine.FindStringSubmatch(line); match != nil {
			counts[match[1]] = numbers(match[2])
			continue
		}
		match := rowLine.FindStringSubmatch(line)
		if match == nil || ruleLine.MatchString(line) {
			continue
		}
		id, cells := match[1], strings.Split(strings.Trim(line, "| "), " |")
		if _, twice := rows[id]; twice {
			problemf("%s is on the page twice: remove one of the lines", id)
		}
		if len(cells) < 3 || len(cells) > 4 || !slices.Contains(states, strings.TrimSpace(cells[2])) {
			problemf("the line of %s is not understood: it needs the row, what it is, a state (%s), and why", id, strings.Join(states, ", "))
			rows[id] = row{}
			continue
		}
		one := row{state: strings.TrimSpace(cells[2])}
		if len(cells) == 4 {
			one.why = strings.TrimSpace(cells[3])
		}
		rows[id] = one
	}
	return rows, counts
}

func numbers(cells string) (all []int) {
	for cell := range strings.FieldsSeq(strings.ReplaceAll(cells, "|", " ")) {
		n, err := strconv.Atoi(cell)
		if err != nil {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// A check that finds nothing wrong in anything would be of no use.
func TestWhatIsWrongIsTold(t *testing.T) {
	sound := func() []string {
		var lines []string
		for _, id := range ids() {
			lines = append(lines, "| "+id+" | Something | tested | |")
		}
		for _, area := range areas {
			n := 0
			for _, id := range ids() {
				if areaOf(id) == area.name {
					n++
				}
			}
			lines = append(lines, fmt.Sprintf("| %s | %d | %d | 0 | 0 | 0 |", area.name, n, n))
		}
		return append(lines, fmt.Sprintf("| all | %d | %d | 0 | 0 | 0 |", len(ids()), len(ids())))
	}
	naming := func() map[string]string {
		named := map[string]string{}
		for _, id := range ids() {
			named[id] = "some_test.go"
		}
		return named
	}
	for _, test := range []struct {
		name  string
		page  func(lines []string) []string
		named func(map[string]string)
		want  []string // a part of each problem
	}{
		{name: "nothing"},
		{name: "not named", named: func(named map[string]string) { delete(named, "KEY-01") }, want: []string{"KEY-01 is said to be tested"}},
		{name: "a phantom in a test", named: func(named map[string]string) { named["KEY-99"] = "some_test.go" }, want: []string{"KEY-99 is named in some_test.go"}},
		{
			name: "a phantom on the page", page: func(lines []string) []string { return append(lines, "| XYZ-01 | Something | tested | |") },
			want: []string{"XYZ-01 is on the page", "the counts of all"},
		},
		{
			name: "not listed", page: func(lines []string) []string { return lines[1:] },
			want: []string{"KEY-01 is not on the page", "the counts of KEY", "the counts of all"},
		},
		{
			name: "listed twice", page: func(lines []string) []string { return append(lines, lines[0]) },
			want: []string{"KEY-01 is on the page twice"},
		},
		{
			name: "an unknown state", page: instead("| KEY-01 | Something | perhaps | |"),
			want: []string{"the line of KEY-01 is not understood", "KEY-01 is \"\" without a reason", "the counts of KEY", "the counts of all"},
		},
		{
			name: "no reason", page: instead("| KEY-01 | Something | n/a in Go | |"),
			want: []string{`KEY-01 is "n/a in Go" without a reason`, "the counts of KEY", "the counts of all"},
		},
		{
			name: "no basis", page: instead("| KEY-01 | Something | different | We like it so |"),
			want: []string{"KEY-01 is different: name the rule", "the counts of KEY", "the counts of all"},
		},
		{
			name: "missing, but named", page: instead("| KEY-01 | Something | missing | Later |"),
			want: []string{"KEY-01 is said to be missing, but some_test.go names it", "the counts of KEY", "the counts of all"},
		},
		{
			name: "a wrong count", page: func(lines []string) []string { return append(lines, "| KEY | 20 | 19 | 1 | 0 | 0 |") },
			want: []string{"the counts of KEY are [20 19 1 0 0]: correct them to [20 20 0 0 0]"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, named := sound(), naming()
			if test.page != nil {
				lines = test.page(lines)
			}
			if test.named != nil {
				test.named(named)
			}
			problems := check(strings.Join(lines, "\n"), named)
			if len(problems) != len(test.want) {
				t.Fatalf("problems: %d, want %d:\n%s", len(problems), len(test.want), strings.Join(problems, "\n"))
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, want) }) {
					t.Errorf("nobody tells that %s:\n%s", want, strings.Join(problems, "\n"))
				}
			}
		})
	}
}

// instead puts a line in the place of the first one.
func instead(line string) func([]string) []string {
	return func(lines []string) []string { return append([]string{line}, lines[1:]...) }
}
