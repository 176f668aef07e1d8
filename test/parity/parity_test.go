// Package parity compares test/parity/kopf-parity.md with the tests and the code. A test must name each row with the
// state tested, the page must have each row that a test names, and each name beside a name of kopf must exist.
package parity

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root      = "../.." // root of the repository, relative to this package
	page      = "test/parity/kopf-parity.md"
	testsPage = "test/parity/kopf-parity-tests.md"
)

var update = flag.Bool("update", false, "write the counts on "+page+", and "+testsPage+"")

// areas are the existing rows: the ranges of numbers in each area.
var areas = []struct {
	name   string
	ranges [][2]int
}{
	{"KEY", [][2]int{{1, 16}, {20, 23}}},
	{"ESS", [][2]int{{1, 24}}},
	{"DIFF", [][2]int{{1, 10}}},
	{"PROG", [][2]int{{1, 31}}},
	{"HND", [][2]int{{1, 23}}},
	{"SEL", [][2]int{{1, 16}}},
	{"SCOPE", [][2]int{{1, 11}}},
	{"OBS", [][2]int{{1, 10}}},
	{"FLT", [][2]int{{1, 18}}},
	{"KW", [][2]int{{1, 11}}},
	{"EVT", [][2]int{{1, 16}, {20, 25}}},
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
	{"DAE", [][2]int{{1, 30}, {40, 44}, {50, 52}}},
	{"TIM", [][2]int{{1, 19}}},
	{"PEER", [][2]int{{1, 8}, {10, 14}, {20, 25}, {30, 36}, {40, 45}, {50, 55}, {60, 62}}},
	{"IDX", [][2]int{{1, 23}}},
	{"ADM", [][2]int{{1, 30}, {40, 53}}},
	{"HIER", [][2]int{{1, 12}}},
	{"POST", [][2]int{{1, 17}}},
	{"LOG", [][2]int{{1, 6}}},
	{"MEMO", [][2]int{{1, 7}}},
	{"ACT", [][2]int{{1, 8}}},
	{"AUTH", [][2]int{{1, 12}}},
	{"PROBE", [][2]int{{1, 5}}},
	{"NET", [][2]int{{1, 7}}},
	{"THR", [][2]int{{1, 9}}},
	{"RUN", [][2]int{{1, 6}, {20, 28}}},
	{"EMB", [][2]int{{1, 6}}},
	{"CLI", [][2]int{{1, 4}}},
	{"SET", [][2]int{{1, 42}, {50, 51}}},
	{"TEST", [][2]int{{1, 2}}},
	{"MIG", [][2]int{{1, 18}}},
	{"SE", [][2]int{{1, 57}}},
}

// ids returns all rows of the areas, in order.
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

// mention matches rows of the areas in any text.
var mention = func() *regexp.Regexp {
	var names []string
	for _, area := range areas {
		names = append(names, area.name)
	}
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)-\d+\b`)
}()

func TestPage_IsUpToDate(t *testing.T) {
	text, tests := read(t, page), testFiles(t)
	named := namedIn(tests)
	if len(named) < 100 {
		t.Fatalf("the tests name %d rows: they were not found", len(named))
	}
	rows, _ := parse(text, func(string, ...any) {})
	list := testsOf(rows, named) + namesOf(text, users(exported(t), tests))
	if *update {
		text = counted(text, rows)
		write(t, page, text)
		write(t, testsPage, list)
	}
	for _, problem := range check(text, named) {
		t.Error(problem)
	}
	if read(t, testsPage) != list {
		t.Errorf("%s does not say which tests name which rows: run go test ./test/parity -update", testsPage)
	}
	for _, link := range linked.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), link[1])); err != nil {
			t.Errorf("%s leads to %s, which does not exist: correct the link", page, link[1])
		}
	}
}

var linked = regexp.MustCompile(`\]\(([^)#]+\.md)(?:#[^)]*)?\)`)

// testFiles returns the texts of all tests except those of this package, by their paths from the root.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"),
			path == filepath.Join(root, "test", "parity"), path == filepath.Join(root, "contrib"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(filepath.ToSlash(path), root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// namedIn returns the rows that tests name, each with the files that name it, in order.
func namedIn(tests map[string]string) map[string][]string {
	named := map[string][]string{}
	for path, text := range tests {
		for _, id := range mention.FindAllString(text, -1) {
			if !slices.Contains(named[id], path) {
				named[id] = append(named[id], path)
			}
		}
	}
	for _, paths := range named {
		slices.Sort(paths)
	}
	return named
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
