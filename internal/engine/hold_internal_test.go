package engine

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each reason for which a step ends a reconcile must be among the reasons of the step, or the metric does not count its objects.
func TestSteps_NameTheirReasons(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source []byte
	for _, file := range files {
		if file == "scope.go" || file == "pause.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, content...)
	}
	var named []string
	for _, s := range steps {
		for _, reason := range s.reasons {
			named = append(named, "HeldBy"+string(reason))
		}
	}
	used := regexp.MustCompile(`(?:holdFor\(|return Hold\{Reason: )(HeldBy\w+)(.*)`).FindAllStringSubmatch(string(source), -1)
	if len(used) < 5 {
		t.Fatalf("only %d holds found: the pattern is outdated", len(used))
	}
	for _, one := range used {
		isOfAnotherScope := strings.Contains(one[2], "Scope:")
		if one[1] != "HeldByShard" && !isOfAnotherScope && !slices.Contains(named, one[1]) { // the metric of drains counts the objects of shards
			t.Errorf("no step names the reason %s", one[1])
		}
	}
}
