// Command licenses checks the licenses of all modules that the packages in the current directory and their tests import. It fails for an unknown
// or disallowed license.
//
//	go run ./hack/licenses
//	cd examples/15-timers && go run ../../hack/licenses
//
// It ignores tools, because programs that use the library do not contain them.
//
// With -texts, it also writes the texts of the licenses of a program to a file, for the archives of a release:
//
//	go run ./hack/licenses -texts THIRD-PARTY-LICENSES ./cmd/kopf
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// allowed lists the licenses that require only attribution.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

func main() {
	file := flag.String("texts", "", "write the texts of the licenses of the program in the argument to this `file`")
	flag.Parse()
	err := run()
	if err == nil && *file != "" {
		err = writeTexts(*file, flag.Arg(0))
	}
	if err != nil {
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
		found, err := m.licenses()
		switch bad := notAllowed(found); {
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", m.path, err))
		case len(found) == 0:
			problems = append(problems, fmt.Errorf("%s: no known license in %s: check it, and remove the module "+
				"or add the license to hack/licenses/classify.go", m.path, m.folder))
		case len(bad) > 0:
			problems = append(problems, fmt.Errorf("%s has the license %s, but only %s are allowed: remove the module, or, if the license requires "+
				"only attribution, add it to the variable allowed in hack/licenses/main.go", m.path, strings.Join(bad, ", "), strings.Join(allowed, ", ")))
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

// A module is a dependency.
type module struct{ path, folder string }

// notAllowed returns the disallowed licenses. A module with several licenses may require all of them.
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
		if strings.HasPrefix(path, "github.com/kopf-runtime/kopf-runtime/") { // the root of the repository has the license of its modules
			continue
		}
		all = append(all, module{path, folder})
	}
	return all, nil
}
