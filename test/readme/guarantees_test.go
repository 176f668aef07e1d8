package readme

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each guarantee in docs/guarantees.md must name an existing test.
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
			t.Errorf("this guarantee names no test: %s", line)
		}
		for _, test := range tests {
			found++
			if !strings.Contains(read(t, filepath.Join(root, "docs", test[1])), test[2]) {
				t.Errorf("%s has no test %q", test[1], test[2])
			}
		}
	}
	if found < 30 {
		t.Errorf("number of guarantees = %d, want at least 30", found)
	}
}
