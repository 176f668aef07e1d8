package parity

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A row is one line of the page.
type row struct{ what, state, why string }

var (
	rowLine   = regexp.MustCompile(`^\| ([A-Z]+-\d+) \|`)
	countLine = regexp.MustCompile(`^\| ([A-Z]+|all) ((?:\| \d+ )+)\|$`)
	ruleLine  = regexp.MustCompile(`^\| B-\d\d \|`)
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
		id, cells := match[1], cellsOf(line)
		if _, twice := rows[id]; twice {
			problemf("%s is on the page twice: remove one of the lines", id)
		}
		if len(cells) != 4 || !slices.Contains(states, cells[2]) {
			problemf("the line of %s is not understood: it needs the row, what it is, a state (%s), and why", id, strings.Join(states, ", "))
			rows[id] = row{}
			continue
		}
		rows[id] = row{what: cells[1], state: cells[2], why: cells[3]}
	}
	return rows, counts
}

// cellsOf returns the cells of a line of a table.
func cellsOf(line string) (cells []string) {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	for cell := range strings.SplitSeq(strings.ReplaceAll(inner, `\|`, "\x00"), "|") {
		cells = append(cells, strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
	}
	return cells
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

// counted returns the page with correct counts in the table at its top.
func counted(text string, rows map[string]row) string {
	sums := sums(rows)
	table := &strings.Builder{}
	fmt.Fprintf(table, "| area | rows | %s |\n| --- | ---:%s |\n", strings.Join(states, " | "), strings.Repeat(" | ---:", len(states)))
	line := func(name string) {
		fmt.Fprintf(table, "| %s ", name)
		for _, n := range sums[name] {
			fmt.Fprintf(table, "| %d ", n)
		}
		table.WriteString("|\n")
	}
	for _, area := range areas {
		line(area.name)
	}
	line("all")
	return countTable.ReplaceAllLiteralString(text, table.String())
}

var countTable = regexp.MustCompile(`(?m)^\| area \|.*\n(?:\|.*\n)+`)

// testsOf returns the page with the tests that name each row.
func testsOf(rows map[string]row, named map[string][]string) string {
	text := &strings.Builder{}
	text.WriteString(`# Which tests show what

The tests that name the rows of [kopf-parity.md](kopf-parity.md): search them for the id. This page is made by
` + "`go test ./test/parity -update`" + `; without the flag, the test fails if the page is not what the tests say.
`)
	for _, area := range areas {
		fmt.Fprintf(text, "\n## %s\n\n| row | state | tests |\n| --- | --- | --- |\n", area.name)
		for _, id := range ids() {
			if areaOf(id) != area.name || len(named[id]) == 0 {
				continue
			}
			var links []string
			for _, path := range named[id] {
				links = append(links, fmt.Sprintf("[%s](../../%s)", path, path))
			}
			fmt.Fprintf(text, "| %s | %s | %s |\n", id, rows[id].state, strings.Join(links, ", "))
		}
	}
	return text.String()
}
