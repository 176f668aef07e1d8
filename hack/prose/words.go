package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strings"
)

// A frequency counts some words in the Go comments of pkg, internal and cmd.
type frequency struct {
	words        []string
	limit        float64 // per 1,000 words
	count, outOf int
}

func (f frequency) perThousand() float64 { return 1000 * float64(f.count) / float64(max(1, f.outOf)) }

func (f frequency) exceeds() bool { return f.perThousand() > f.limit }

func (f frequency) String() string {
	return fmt.Sprintf("%s: %.2f in 1,000 words of Go comments, limit %.1f", strings.Join(f.words, "/"), f.perThousand(), f.limit)
}

var word = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)

// wordFrequencies counts words that often replace a noun.
func wordFrequencies(files []string) ([]frequency, error) {
	all := []frequency{
		{words: []string{"what"}, limit: 1},
		{words: []string{"tell", "told", "tells"}, limit: 0.2},
		{words: []string{"somebody", "nobody", "whoever"}, limit: 0.1},
	}
	for _, file := range files {
		if !isProductCode(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, group := range parsed.Comments {
			countWords(group.Text(), all)
		}
	}
	return all, nil
}

func countWords(text string, all []frequency) {
	for _, found := range word.FindAllString(text, -1) {
		for i := range all {
			all[i].outOf++
			for _, one := range all[i].words {
				if strings.EqualFold(found, one) {
					all[i].count++
				}
			}
		}
	}
}

// maxSubject is the maximum length of a commit subject.
const maxSubject = 72

// checkCommits checks the subjects of the commits after a commit.
func checkCommits(since string) (problems []error) {
	out, err := exec.Command("git", "log", "--no-merges", "--format=%h %s", since+"..HEAD").Output() //nolint:gosec // a commit of the repository
	if err != nil {
		return []error{fmt.Errorf("list the commits after %s: %w", since, err)}
	}
	for line := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		commit, subject, _ := strings.Cut(line, " ")
		for _, problem := range subjectProblems(subject) {
			problems = append(problems, fmt.Errorf("commit %s: %s: %q", commit, problem, subject))
		}
	}
	return problems
}

var vagueSubject = regexp.MustCompile(`(?i)^(lint|format|fix|wip|cleanup|update)\.?$`)

func subjectProblems(subject string) (problems []string) {
	switch {
	case subject == "":
	case len([]rune(subject)) > maxSubject:
		problems = append(problems, fmt.Sprintf("the subject is longer than %d characters", maxSubject))
	case strings.HasSuffix(subject, "."):
		problems = append(problems, "the subject ends with a stop")
	case vagueSubject.MatchString(subject):
		problems = append(problems, "the subject does not say what changes")
	}
	return problems
}
