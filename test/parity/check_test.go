package parity

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The states of a row, in the order of the counts.
const (
	tested    = "tested"
	better    = "better"
	different = "different"
	nothing   = "n/a in Go"
	missing   = "missing"
)

var states = []string{tested, better, different, nothing, missing}

var (
	// basis matches the reason for a difference: a rule of the page, another row, or a decision.
	basis = regexp.MustCompile(`\bB-\d\d\b|\bMIG-\d\d\b|\]\((?:\.\./)*docs/decisions/\d{4}-`)
	rule  = regexp.MustCompile(`\bB-\d\d\b`)
)

// check returns the problems of the page, with their solutions.
func check(text string, named map[string][]string) (problems []string) {
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	all := ids()
	rows, counts := parse(text, problemf)
	for _, id := range all {
		row, listed := rows[id]
		_, isNamed := named[id]
		switch {
		case !listed:
			problemf("%s is not on the page: add a line for it", id)
		case (row.state == tested || row.state == better) && !isNamed:
			problemf("%s is said to be %s, but no test names it: write one, name the row in the test that proves it, or say that it is missing", id, row.state)
		case row.state == missing && isNamed:
			problemf("%s is said to be missing, but %s names it: if that proves it, it is tested", id, named[id][0])
		case row.state != tested && row.why == "":
			problemf("%s is %q without a reason: say why", id, row.state)
		case (row.state == different || row.state == better) && !basis.MatchString(row.why):
			problemf("%s is %s: name the rule or the decision behind it; if there is none yet, decide it", id, row.state)
		case row.state == nothing && !isNamed && !basis.MatchString(row.why):
			problemf("%s is %s: name a decision, or name the row in the test that shows it", id, row.state)
		}
		for _, name := range rule.FindAllString(row.why, -1) {
			if !strings.Contains(text, "\n| "+name+" |") {
				problemf("%s rests on %s, which the page does not explain: add it to the rules", id, name)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if !slices.Contains(all, id) {
			problemf("%s is on the page, but there is no such row: remove it", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !slices.Contains(all, id) {
			problemf("%s is named in %s, but there is no such row: correct the test", id, named[id][0])
		}
	}
	return append(problems, checkCounts(rows, counts)...)
}

// checkCounts compares the table at the top with the rows.
func checkCounts(rows map[string]row, counts map[string][]int) (problems []string) {
	want := sums(rows)
	for _, line := range slices.Sorted(maps.Keys(want)) {
		if !slices.Equal(counts[line], want[line]) {
			problems = append(problems, fmt.Sprintf("the counts of %s are %v, and should be %v (rows, %s): run go test ./test/parity -update",
				line, counts[line], want[line], strings.Join(states, ", ")))
		}
	}
	return problems
}

// sums counts the rows of each area, and of all, by their states.
func sums(rows map[string]row) map[string][]int {
	sums := map[string][]int{"all": make([]int, 1+len(states))}
	for _, area := range areas {
		sums[area.name] = make([]int, 1+len(states))
	}
	for id, row := range rows {
		column := 1 + slices.Index(states, row.state)
		for _, line := range []string{areaOf(id), "all"} {
			if sum, known := sums[line]; known {
				sum[0]++
				if column > 0 {
					sum[column]++
				}
			}
		}
	}
	return sums
}
