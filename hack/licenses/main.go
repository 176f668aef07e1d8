// Command licenses looks at the licence of each module whose packages are built for the packages of the current folder, tests
// included, and fails when there is one that is not known, or not allowed.
//
//	go run ./hack/licenses
//	cd examples/15-timers && go run ../../hack/licenses
//
// Tools are not looked at: nothing of them is part of what anybody builds with the library.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// allowed are the licences that ask for no more than to be named.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func run() error {
	all, err := modules()
	if err != nil {
		return err
	}
	var problems []error
	count := map[string]int{}
	for _, m := range all {
		found, err := m.licences()
		switch bad := notAllowed(found); {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", m.path, err))
		case len(found) == 0:
			problems = append(problems, fmt.Errorf("%s: no file in %s is a licence that is known here: look at it, and do without the module, "+
				"or teach hack/licenses/licence.go", m.path, m.folder))
		case len(bad) > 0:
			problems = append(problems, fmt.Errorf("%s has the licence %s, and allowed are %s: do without the module, or, if that "+
				"one does not concern what is built from it, have an exception with this reason in hack/licenses/main.go", m.path, strings.Join(bad, ", "), strings.Join(allowed, ", ")))
		default:
			count[found[0]]++
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	var parts []string
	for _, name := range allowed {
		if count[name] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[name], name))
		}
	}
	fmt.Printf("licenses: %d modules: %s\n", len(all), strings.Join(parts, ", "))
	return nil
}

// A module is one that something comes from.
type module struct{ path, folder string }

// notAllowed are those of the licences that were found: a module with several of them may ask for all.
func notAllowed(found []string) []string {
	return slices.DeleteFunc(slices.Clone(found), func(name string) bool { return slices.Contains(allowed, name) })
}

func modules() ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	lines := strings.Fields(strings.ReplaceAll(string(out), "\t", "="))
	slices.Sort(lines)
	var all []module
	for _, line := range slices.Compact(lines) {
		path, folder, _ := strings.Cut(line, "=")
		all = append(all, module{path, folder})
	}
	return all, nil
}
