package parity

import (
	"slices"
	"strings"
	"testing"
)

// The check must detect problems.
func TestCheck_DetectsProblems(t *testing.T) {
	sound := func() []string {
		var lines []string
		rows := map[string]row{}
		for _, id := range ids() {
			lines = append(lines, "| "+id+" | Something | tested | |")
			rows[id] = row{state: tested}
		}
		lines = append(lines, "| B-99 | A rule |")
		return append(lines, strings.Split(counted("| area |\n| all |\n", rows), "\n")...)
	}
	naming := func() map[string][]string {
		named := map[string][]string{}
		for _, id := range ids() {
			named[id] = []string{"some_test.go"}
		}
		return named
	}
	for _, test := range []struct {
		name  string
		page  func(lines []string) []string
		named func(map[string][]string)
		want  []string // a part of each problem
	}{
		{name: "nothing"},
		{
			name: "not named", named: func(named map[string][]string) { delete(named, "KEY-01") },
			want: []string{"KEY-01 is said to be tested"},
		},
		{
			name: "better, but not named", page: instead("| KEY-01 | Something | better | B-99 |"),
			named: func(named map[string][]string) { delete(named, "KEY-01") },
			want:  []string{"KEY-01 is said to be better", "the counts of KEY", "the counts of all"},
		},
		{
			name: "better without a reason", page: instead("| KEY-01 | Something | better | |"),
			want: []string{`KEY-01 is "better" without a reason`, "the counts of KEY", "the counts of all"},
		},
		{
			name: "better without a basis", page: instead("| KEY-01 | Something | better | It just is |"),
			want: []string{"KEY-01 is better: name the rule", "the counts of KEY", "the counts of all"},
		},
		{
			name: "a phantom in a test", named: func(named map[string][]string) { named["KEY-99"] = []string{"some_test.go"} },
			want: []string{"KEY-99 is named in some_test.go"},
		},
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
			want: []string{"the line of KEY-01 is not understood", `KEY-01 is "" without a reason`, "the counts of KEY", "the counts of all"},
		},
		{
			name: "no cell for a reason", page: instead("| KEY-01 | Something | tested |"),
			want: []string{"the line of KEY-01 is not understood", `KEY-01 is "" without a reason`, "the counts of KEY", "the counts of all"},
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
			name: "nothing decided", page: instead("| KEY-01 | Something | different | No rule yet |"),
			want: []string{"KEY-01 is different: name the rule", "the counts of KEY", "the counts of all"},
		},
		{
			name: "a rule that is not there", page: instead("| KEY-01 | Something | different | B-98 |"),
			want: []string{"KEY-01 rests on B-98", "the counts of KEY", "the counts of all"},
		},
		{
			name: "missing, but named", page: instead("| KEY-01 | Something | missing | Later |"),
			want: []string{"KEY-01 is said to be missing, but some_test.go names it", "the counts of KEY", "the counts of all"},
		},
		{
			name: "a wrong count", page: func(lines []string) []string { return append(lines, "| KEY | 20 | 19 | 1 | 0 | 0 | 0 |") },
			want: []string{"the counts of KEY are [20 19 1 0 0 0], and should be [20 20 0 0 0 0]"},
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
			expect(t, check(strings.Join(lines, "\n"), named), test.want)
		})
	}
}

// expect compares problems with a part of each.
func expect(t *testing.T, problems, want []string) {
	t.Helper()
	if len(problems) != len(want) {
		t.Fatalf("problems: %d, want %d:\n%s", len(problems), len(want), strings.Join(problems, "\n"))
	}
	for _, part := range want {
		if !slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, part) }) {
			t.Errorf("missing problem %s:\n%s", part, strings.Join(problems, "\n"))
		}
	}
}

// instead replaces the first line by another one.
func instead(line string) func([]string) []string {
	return func(lines []string) []string { return append([]string{line}, lines[1:]...) }
}

// The page of the tests has the files of each row, and no row without tests.
func TestTestsOf_LinksTheTestsOfARow(t *testing.T) {
	text := testsOf(map[string]row{"KEY-01": {state: tested}}, map[string][]string{"KEY-01": {"a/a_test.go", "b/b_test.go"}})
	line := "| KEY-01 | tested | [a/a_test.go](../../a/a_test.go), [b/b_test.go](../../b/b_test.go) |"
	if !strings.Contains(text, line) || strings.Contains(text, "KEY-02") {
		t.Errorf("%.600s", text)
	}
}
