package examples

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// waitForLog waits for a line that contains all the words.
func (e *example) waitForLog(words ...string) {
	e.t.Helper()
	e.Eventually(func() bool { return e.hasLogged(words...) }).Should(BeTrue(), "the operator has not logged a line with %q", words)
}

// expectNoLog checks that no line so far contains all the words.
func (e *example) expectNoLog(words ...string) {
	e.t.Helper()
	e.Expect(e.hasLogged(words...)).To(BeFalse(), "the operator has logged a line with %q", words)
}

// countLog returns a function that counts the lines that contain all the words.
func (e *example) countLog(words ...string) func() int {
	return func() (n int) {
		for _, line := range e.lines() {
			if hasAll(line, words) {
				n++
			}
		}
		return n
	}
}

func (e *example) hasLogged(words ...string) bool {
	return slices.ContainsFunc(e.lines(), func(line string) bool { return hasAll(line, words) })
}

func hasAll(line string, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
}

// checkLogInReadme waits until the operator has logged each line that the README shows. A line of the README may have
// fewer fields, and "..." as the value of a field.
func (e *example) checkLogInReadme() {
	e.t.Helper()
	var shown []entry
	for line := range strings.Lines(read(e.t, e.name, "README.md")) {
		if match := shownLine.FindStringSubmatch(strings.TrimRight(line, "\n")); match != nil {
			shown = append(shown, e.entry(match[1], match[2], match[3]))
		}
	}
	e.Expect(shown).NotTo(BeEmpty(), "the README shows no log")
	e.Eventually(func() []entry {
		logged := e.logged()
		return slices.DeleteFunc(slices.Clone(shown), func(one entry) bool { return slices.ContainsFunc(logged, one.matches) })
	}).Should(BeEmpty(), "the README shows lines that the operator has not logged")
}

// An entry is a line of a log.
type entry struct {
	level, message string
	fields         map[string]any
}

// In a README, columns are aligned with blanks; in a log, they end with a tab.
var (
	shownLine  = regexp.MustCompile(`^(INFO|ERROR|DEBUG|LEVEL\(-\d\)) {2,}(\S.*?)(?: {2,}(\{.*\}))?$`)
	loggedLine = regexp.MustCompile(`^\S+\t([^\t]+)\t(?:[^\t]+\t)??([^\t]+)(?:\t(\{.*\}))?$`)
)

func (e *example) logged() (entries []entry) {
	for _, line := range e.lines() {
		if match := loggedLine.FindStringSubmatch(line); match != nil {
			entries = append(entries, e.entry(match[1], match[2], match[3]))
		}
	}
	return entries
}

func (e *example) entry(level, message, fields string) entry {
	e.t.Helper()
	one := entry{level: level, message: message}
	if fields != "" {
		e.Expect(json.Unmarshal([]byte(fields), &one.fields)).To(Succeed(), fields)
	}
	return one
}

func (one entry) matches(logged entry) bool {
	if one.level != logged.level || one.message != logged.message {
		return false
	}
	for key, value := range one.fields {
		if is, ok := logged.fields[key]; !ok || value != "..." && !reflect.DeepEqual(value, is) {
			return false
		}
	}
	return true
}
