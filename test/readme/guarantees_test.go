package readme

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each guarantee of the guide names an existing test.
func TestGuarantees_NameExistingTests(t *testing.T) {
	page := filepath.Join(root, "docs/guarantees.md")
	named := regexp.MustCompile(`\]\((\.\./[\w/.-]+_test\.go)\): \*([^*]+)\*`)
	found := 0
	for line := range strings.Lines(read(t, page)) {
		header, shown, isRow := strings.Cut(strings.TrimSpace(line), " | [")
		if !isRow || !strings.HasPrefix(header, "| ") {
			continue
		}
		tests := named.FindAllStringSubmatch("["+shown, -1)
		if len(tests) == 0 {
			t.Errorf("nothing shows this: %s", line)
		}
		for _, test := range tests {
			found++
			if !strings.Contains(read(t, filepath.Join(root, "docs", test[1])), test[2]) {
				t.Errorf("%s has no test %q", test[1], test[2])
			}
		}
	}
	if found < 30 {
		t.Errorf("there are only %d guarantees", found)
	}
}
