// Command prose checks the language of the project. It checks documentation and Go comments with Vale, and messages in
// string literals with the same rules. It also checks the subjects of commits.
//
//	go run ./hack/prose -vale bin/vale
//	go run ./hack/prose -vale bin/vale -update   # removes files from .vale/pending that follow the rules now
//
// The file .vale/pending lists the files that do not follow the rules yet. A file that is not listed must follow them. A listed file
// that follows the rules must be removed from the list.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	pendingFile = ".vale/pending"
	stylesDir   = ".vale/styles/Kopf"
)

func main() {
	vale := flag.String("vale", "bin/vale", "path of Vale")
	update := flag.Bool("update", false, "remove files from "+pendingFile+" that follow the rules now")
	since := flag.String("commits-since", "", "also check the subjects of the commits after this one")
	flag.Parse()
	if err := run(*vale, *update, *since); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(vale string, update bool, since string) error {
	files, err := trackedFiles()
	if err != nil {
		return err
	}
	rules, err := readRules(stylesDir)
	if err != nil {
		return err
	}
	pending, err := readPending(pendingFile)
	if err != nil {
		return err
	}
	findings, err := runVale(vale, files)
	if err != nil {
		return err
	}
	for _, file := range files {
		if isProductCode(file) {
			found, err := checkMessages(file, rules)
			if err != nil {
				return err
			}
			findings[file] = append(findings[file], found...)
		}
	}
	if update {
		return writePending(pendingFile, slices.DeleteFunc(pending, func(file string) bool { return len(findings[file]) == 0 }))
	}
	problems := compareWithPending(findings, pending)
	if len(pending) > 0 {
		fmt.Printf("prose: %d of %d files must still be rewritten (%s)\n", len(pending), len(files), pendingFile)
	}
	if since != "" {
		problems = append(problems, checkCommits(since)...)
	}
	return errors.Join(problems...)
}

// trackedFiles returns the files with prose: documentation and Go code, without generated code.
func trackedFiles() ([]string, error) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.go").Output()
	if err != nil {
		return nil, fmt.Errorf("list the files of the repository: %w", err)
	}
	files := strings.Fields(string(out))
	return slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Stat(file)
		return err != nil || strings.HasPrefix(filepath.Base(file), "zz_generated")
	}), nil
}

// isProductCode reports whether the messages of a file reach users.
func isProductCode(file string) bool {
	return strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") &&
		(strings.HasPrefix(file, "pkg/") || strings.HasPrefix(file, "internal/") || strings.HasPrefix(file, "cmd/"))
}

// runVale returns the findings of Vale by file.
func runVale(vale string, files []string) (map[string][]string, error) {
	command := exec.Command(vale, append([]string{"--output=JSON", "--no-exit"}, files...)...) //nolint:gosec // the caller chooses the path
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", vale, err, stderr.String())
	}
	var alerts map[string][]struct {
		Line                     int
		Span                     []int
		Check, Message, Severity string
	}
	if err := json.Unmarshal(out, &alerts); err != nil {
		return nil, fmt.Errorf("decode the output of %s: %w: %s", vale, err, out)
	}
	findings := map[string][]string{}
	for file, list := range alerts {
		for _, a := range list {
			findings[file] = append(findings[file], fmt.Sprintf("%s:%d: %s (%s)", file, a.Line, a.Message, a.Check))
		}
	}
	return findings, nil
}

// compareWithPending returns the findings of files that are not listed, and an error for each listed file without findings.
func compareWithPending(findings map[string][]string, pending []string) (problems []error) {
	var files []string
	for file := range findings {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		if slices.Contains(pending, file) {
			continue
		}
		for _, finding := range findings[file] {
			problems = append(problems, errors.New(finding))
		}
	}
	for _, file := range pending {
		if len(findings[file]) == 0 {
			problems = append(problems, fmt.Errorf("%s: %s follows the rules or does not exist; run 'make prose-update' to remove it from the list", pendingFile, file))
		}
	}
	return problems
}

func readPending(path string) ([]string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // a constant
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

func writePending(path string, files []string) error {
	if len(files) == 0 {
		return os.Remove(path)
	}
	return os.WriteFile(path, []byte(strings.Join(files, "\n")+"\n"), 0o644) //nolint:gosec // not secret
}
