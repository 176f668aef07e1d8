package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// publicNames is a program in Python that prints the public names of a version of kopf.
const publicNames = `
import dataclasses, inspect, kopf
print(*kopf.__all__)
for group in dataclasses.fields(kopf.OperatorSettings):
    for field in dataclasses.fields(group.default_factory):
        if not field.name.startswith("_"):
            print(f"settings.{group.name}.{field.name}")
for decorator in ("create", "update", "delete", "resume", "field", "event", "validate", "mutate", "daemon", "timer", "index"):
    for name, parameter in inspect.signature(getattr(kopf.on, decorator)).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not name.startswith("_"):
            print(f"{name}=")
`

// selectorKeywords name the kind of a handler, not an option of it.
var selectorKeywords = map[string]bool{"group=": true, "version=": true, "kind=": true, "plural=": true, "singular=": true, "shortcut=": true, "category=": true}

// The page about parity lists each public name of both versions.
func TestParityPage_ListsAllNames(t *testing.T) {
	if *environments == "" {
		t.Skip("without -kopf, which make test-kopf sets")
	}
	text, err := os.ReadFile("../parity/kopf-parity.md")
	must(t, err)
	listed := map[string]bool{}
	for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(string(text), -1) {
		listed[strings.TrimPrefix(strings.TrimPrefix(span[1], "@"), "kopf.")] = true
	}
	for _, version := range versions {
		output, err := exec.Command(filepath.Join(*environments, version, "bin", "python"), "-P", "-c", publicNames).Output()
		must(t, err)
		names := strings.Fields(string(output))
		if len(names) < 150 {
			t.Errorf("%s has only %d names", version, len(names))
		}
		for _, name := range names {
			if !listed[name] && !selectorKeywords[name] {
				t.Errorf("the page does not list %s of %s", name, version)
			}
		}
	}
}
