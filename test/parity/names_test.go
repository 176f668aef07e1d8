package parity

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// done is the state of a name of kopf that has an equivalent here.
const done = "done"

var nameStates = []string{done, better, different, nothing, missing}

// A name is one line of the appendix.
type name struct {
	of               []string // names of kopf
	here, state, why string
}

// All public names are listed; the names beside them exist, and tests or Examples use them.
func TestNames_AreUpToDate(t *testing.T) {
	api := exported(t)
	if api["kopf.Resource.OnCreate"] != "pkg/kopf" || api["kopf.Request.Object"] != "pkg/kopf" {
		t.Fatalf("the exported names were not found: %d", len(api))
	}
	for _, problem := range checkNames(read(t, page), users(api, testFiles(t))) {
		t.Error(problem)
	}
}

// checkNames returns the problems of the appendix. The parameter users maps each exported name to the tests that use
// it.
func checkNames(text string, users map[string][]string) (problems []string) {
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	listed := map[string]bool{}
	for _, line := range names(text, problemf) {
		what := strings.Join(line.of, ", ")
		for _, one := range line.of {
			if listed[one] {
				problemf("%s is in the appendix twice: remove one of the lines", one)
			}
			listed[one] = true
		}
		ours := ourNames(line.here)
		for _, our := range ours {
			tests, exists := users[our]
			switch {
			case !exists:
				problemf("%s: there is no %s: correct the line", what, our)
			case len(tests) == 0 && (line.state == done || line.state == better):
				problemf("%s: no test uses %s: write one, or an Example", what, our)
			}
		}
		switch {
		case !slices.Contains(nameStates, line.state):
			problemf("%s: %q is no state: use one of %s", what, line.state, strings.Join(nameStates, ", "))
		case (line.state == done || line.state == better) && len(ours) == 0:
			problemf("%s is %s: name what it is here, such as `kopf.For`", what, line.state)
		case line.state != done && line.why == "":
			problemf("%s is %s without a reason: say why", what, line.state)
		case (line.state == different || line.state == better) && !basis.MatchString(line.why):
			problemf("%s is %s: name the rule or the decision behind it", what, line.state)
		}
	}
	for one := range strings.FieldsSeq(kopfNames) {
		if !listed[one] {
			problemf("%s is not in the appendix: add a line for it", one)
		}
	}
	return problems
}

var (
	appendix = regexp.MustCompile(`(?s)\n## Appendix A.*?\n## `)
	quoted   = regexp.MustCompile("`([^`]+)`")
	ourName  = regexp.MustCompile(`^(?:kopf|filter|kopftest|progress|peering|daemons|webhooks|children|conditions|diff|events|rights)(?:\.[A-Z]\w*)+$`)
)

// names returns the lines of the appendix.
func names(text string, problemf func(string, ...any)) (all []name) {
	for line := range strings.SplitSeq(appendix.FindString(text), "\n") {
		cells := cellsOf(line)
		if !strings.HasPrefix(line, "|") || cells[0] == "kopf's name" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != 4 {
			problemf("the line %q is not understood: it needs kopf's name, what it is here, a state, and why", line)
			continue
		}
		one := name{here: cells[1], state: cells[2], why: cells[3]}
		for _, match := range quoted.FindAllStringSubmatch(cells[0], -1) {
			one.of = append(one.of, match[1])
			if strings.Contains(cells[0], "` of ") {
				one.of = []string{cells[0]} // a method, and no list of names
				break
			}
		}
		if len(one.of) == 0 {
			one.of = []string{cells[0]}
		}
		all = append(all, one)
	}
	return all
}

// ourNames returns the names of this library in a cell.
func ourNames(cell string) (all []string) {
	for _, match := range quoted.FindAllStringSubmatch(cell, -1) {
		if ourName.MatchString(match[1]) {
			all = append(all, match[1])
		}
	}
	return all
}

// users returns the tests that use each exported name, Examples first.
func users(api, tests map[string]string) map[string][]string {
	used := map[string][]string{}
	for full := range api {
		used[full] = []string{}
	}
	for path, text := range tests {
		words := map[string]bool{}
		for _, one := range word.FindAllString(text, -1) {
			words[one] = true
		}
		for full, folder := range api {
			if uses(words, full, filepath.Dir(path) == folder, strings.Contains(text, `/`+folder+`"`)) {
				used[full] = append(used[full], path)
			}
		}
	}
	for _, paths := range used {
		slices.SortFunc(paths, func(a, b string) int {
			if x, y := strings.Contains(a, "/example_"), strings.Contains(b, "/example_"); x != y {
				return map[bool]int{true: -1, false: 1}[x]
			}
			return strings.Compare(a, b)
		})
	}
	return used
}

// word matches possible names: alone, after a dot, or before the colon of a literal.
var word = regexp.MustCompile(`(?:\b[a-z]\w*)?\.?\b[A-Z]\w*:?`)

// uses reports whether a test with these words uses a name: it is in the folder of the package, or imports it.
func uses(words map[string]bool, full string, beside, imports bool) bool {
	pkg, rest, _ := strings.Cut(full, ".")
	_, member, isMember := strings.Cut(rest, ".")
	switch {
	case !beside && !imports:
		return false
	case isMember:
		return words["."+member] || words[member+":"] || anyEnds(words, "."+member)
	default:
		return words[full] || words[full+":"] || beside && (words[rest] || words["Example"+rest] || words[pkg+"."+rest])
	}
}

func anyEnds(words map[string]bool, with string) bool {
	for one := range words {
		if strings.HasSuffix(one, with) {
			return true
		}
	}
	return false
}

// namesOf returns the part of the page of the tests with one test for each name.
func namesOf(text string, users map[string][]string) string {
	where := map[string]string{}
	for _, line := range names(text, func(string, ...any) {}) {
		for _, our := range ourNames(line.here) {
			if tests := users[our]; len(tests) > 0 {
				where[our] = tests[0]
			}
		}
	}
	out := &strings.Builder{}
	out.WriteString("\n## Names\n\n| name | used in |\n| --- | --- |\n")
	for _, our := range slices.Sorted(maps.Keys(where)) {
		fmt.Fprintf(out, "| `%s` | [%s](../../%s) |\n", our, where[our], where[our])
	}
	return out.String()
}

// The check must detect problems.
func TestCheckNames_DetectsProblems(t *testing.T) {
	users := map[string][]string{"kopf.For": {"some_test.go"}, "kopf.Lonely": {}}
	var sound strings.Builder
	for one := range strings.FieldsSeq(kopfNames) {
		sound.WriteString("| `" + one + "` | `kopf.For` | done | |\n")
	}
	for _, test := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"| `new_name` | `kopf.For`, or `other.Thing` | done | |", nil},
		{"| `new_name` | `kopf.Gone` | done | |", []string{"new_name: there is no kopf.Gone"}},
		{"| `new_name` | `kopf.Lonely` | done | |", []string{"new_name: no test uses kopf.Lonely"}},
		{"| `new_name` | `kopf.Lonely` | different | B-03 |", nil},
		{"| `new_name` | nothing | done | |", []string{"new_name is done: name what it is here"}},
		{"| `new_name` | nothing | n/a in Go | |", []string{"new_name is n/a in Go without a reason"}},
		{"| `new_name` | `kopf.For` | better | We like it so |", []string{"new_name is better: name the rule"}},
		{"| `new_name` | `kopf.For` | perhaps | |", []string{`"perhaps" is no state`}},
		{"| `new_name` | `kopf.For` | done |", []string{"is not understood"}},
		{"| `adopt` | `kopf.For` | done | |", []string{"adopt is in the appendix twice"}},
	} {
		text := "\n## Appendix A\n" + sound.String() + test.line + "\n## Rules\n"
		expect(t, checkNames(text, users), test.want)
	}
	expect(t, checkNames("\n## Appendix A\n"+strings.Replace(sound.String(), "`adopt`", "`adapt`", 1)+"## Rules\n", users),
		[]string{"adopt is not in the appendix"})
}
