package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
)

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
