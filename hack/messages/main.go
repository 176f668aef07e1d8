// Command messages writes docs/reference/messages.md: the log messages and errors of the library, with advice for operators.
//
//	go run ./hack/messages         # writes the page
//	go run ./hack/messages -check  # fails if the page is out of date
//
// The advice for log messages is in advice.yaml. The command fails if a message at error level has no advice, or if advice
// belongs to no message. It also fails if a log message is not constant.
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const page = "docs/reference/messages.md"

// roots are the directories with product code. Only tests use the skipped packages.
var (
	roots   = []string{"cmd", "internal", "pkg"}
	skipped = []string{
		"internal/apiserver", "internal/controlplane", "internal/explore", "internal/reaper", "internal/testhook",
		"pkg/conditions/conditionstest", "pkg/kopf/kopftest",
	}
)

//go:embed advice.yaml
var adviceFile []byte

func main() {
	check := flag.Bool("check", false, "fail if "+page+" is out of date")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "messages:", err)
		os.Exit(1)
	}
}

func run(check bool) error {
	var advice map[string]string
	if err := yaml.UnmarshalStrict(adviceFile, &advice); err != nil {
		return fmt.Errorf("advice.yaml: %w", err)
	}
	dirs, err := packageDirs()
	if err != nil {
		return err
	}
	var all collection
	for _, dir := range dirs {
		if err := all.addPackage(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(all.problems...); err != nil {
		return err
	}
	if err := checkAdvice(all.logs, advice); err != nil {
		return err
	}
	text := render(&all, advice)
	if !check {
		return os.WriteFile(page, []byte(text), 0o644) //nolint:gosec // the page is public
	}
	current, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	if string(current) != text {
		return fmt.Errorf("%s is out of date; run 'make messages' and commit the result", page)
	}
	return nil
}

// packageDirs returns the directories with Go files below the roots, sorted.
func packageDirs() ([]string, error) {
	found := map[string]bool{}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains(skipped, filepath.ToSlash(path)):
				return filepath.SkipDir
			case isProductFile(path):
				found[filepath.ToSlash(filepath.Dir(path))] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func isProductFile(path string) bool {
	return strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
}

// checkAdvice returns an error for each message at error level without advice, and for each advice without a message.
func checkAdvice(logs map[string]*logMessage, advice map[string]string) error {
	var problems []error
	for _, text := range slices.Sorted(maps.Keys(logs)) {
		if logs[text].levels["error"] && advice[text] == "" {
			problems = append(problems, fmt.Errorf("advice.yaml: add advice for the message %q", text))
		}
	}
	for _, text := range slices.Sorted(maps.Keys(advice)) {
		if logs[text] == nil {
			problems = append(problems, fmt.Errorf("advice.yaml: no code logs the message %q; correct the text or remove it", text))
		}
	}
	return errors.Join(problems...)
}
