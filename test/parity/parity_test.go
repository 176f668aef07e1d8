// Package parity holds docs/kopf-parity.md against the tests: what is said there to be tested is named by a
// test, and what tests name is accounted for there.
package parity

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	root = "../.." // of the repository, seen from this package
	page = "docs/kopf-parity.md"
)

// areas are the rows that there are: the numbers of each area, from one to another one.
var areas = []struct {
	name   string
	ranges [][2]int
}{
	{"KEY", [][2]int{{1, 16}, {20, 23}}},
	{"ESS", [][2]int{{1, 24}}},
	{"DIFF", [][2]int{{1, 10}}},
	{"PROG", [][2]int{{1, 31}}},
	{"HND", [][2]int{{1, 23}}},
	{"FLT", [][2]int{{1, 18}}},
	{"KW", [][2]int{{1, 11}}},
	{"PIPE", [][2]int{{1, 15}, {20, 23}}},
	{"CAUSE", [][2]int{{1, 7}, {10, 28}}},
	{"FIN", [][2]int{{1, 17}}},
	{"CONS", [][2]int{{1, 14}}},
	{"DLY", [][2]int{{1, 14}}},
	{"LIFE", [][2]int{{1, 9}}},
	{"ERR", [][2]int{{1, 12}}},
	{"SUB", [][2]int{{1, 16}}},
	{"RES", [][2]int{{1, 8}}},
	{"PATCH", [][2]int{{1, 12}, {20, 25}, {30, 32}}},
	{"IDX", [][2]int{{1, 23}}},
	{"ADM", [][2]int{{1, 30}, {40, 53}}},
	{"MEMO", [][2]int{{1, 7}}},
	{"ACT", [][2]int{{1, 8}}},
	{"DAE", [][2]int{{1, 30}, {40, 44}, {50, 52}}},
	{"TIM", [][2]int{{1, 19}}},
	{"PEER", [][2]int{{1, 8}, {10, 14}, {20, 25}, {30, 36}, {40, 45}, {50, 55}, {60, 62}}},
	{"HIER", [][2]int{{1, 12}}},
	{"POST", [][2]int{{1, 17}}},
	{"LOG", [][2]int{{1, 6}}},
}

// ids are all rows of the areas, in order.
func ids() (all []string) {
	for _, area := range areas {
		for _, numbers := range area.ranges {
			for n := numbers[0]; n <= numbers[1]; n++ {
				all = append(all, fmt.Sprintf("%s-%02d", area.name, n))
			}
		}
	}
	return all
}

func areaOf(id string) string {
	area, _, _ := strings.Cut(id, "-")
	return area
}

// mention finds rows of the areas, wherever they are named.
var mention = func() *regexp.Regexp {
	var names []string
	for _, area := range areas {
		names = append(names, area.name)
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)-\d+\b`)
}()

func TestThePageIsUpToDate(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	named := namedInTests(t)
	if len(named) < 100 {
		t.Fatalf("the tests name %d rows: they were not found", len(named))
	}
	for _, problem := range check(string(text), named) {
		t.Error(problem)
	}
	for _, link := range linked.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, "docs", link[1])); err != nil {
			t.Errorf("%s leads to %s, which does not exist: correct the link", page, link[1])
		}
	}
}

var linked = regexp.MustCompile(`\]\((decisions/[^)]+)\)`)

// namedInTests returns the rows that tests name, each with the file that names it first.
func namedInTests(t *testing.T) map[string]string {
	t.Helper()
	named := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"),
			path == filepath.Join(root, "test", "parity"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, id := range mention.FindAllString(string(text), -1) {
			if _, known := named[id]; !known {
				named[id] = strings.TrimPrefix(filepath.ToSlash(path), root+"/")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return named
}
