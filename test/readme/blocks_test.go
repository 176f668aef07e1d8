package readme

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// A following names the test that executes a code block, or the reason why none does.
type following struct {
	page, language string
	first          string // start of the block; empty for all blocks of the language on the page
	test           string // folder and function; or
	why            string // reason
}

var followed = []following{
	{"README.md", "sh", "make demo", "hack/example TestDemo", ""}, // the other tests of the folder run make example
	{"docs/admission.md", "yaml", "", "test/guide TestManifestsOfAdmission", ""},
	{"docs/coming-from-kopf.md", "python", "", "", "it is kopf's: what it becomes is compiled"},
	{"docs/coming-from-kopf.md", "sh", "", "test/guide TestTakingOver", ""},
	{"docs/coming-from-kopf.md", "yaml", "", "test/guide TestTakingOver_InMemory", ""},
	{"docs/day-in-the-life.md", "sh", "", "examples TestExamples", ""},
	{"docs/deployment.md", "dockerfile", "", "test/readme TestDockerfiles", ""},
	{"docs/deployment.md", "sh", "", "test/guide TestUninstalling", ""},
	{"docs/deployment.md", "yaml", "", "test/guide TestRightsOfTheDeployment", ""},
	{"docs/getting-started.md", "sh", "", "test/guide TestGettingStarted", ""},
	{"docs/getting-started.md", "yaml", "", "test/guide TestGettingStarted", ""},
	{"docs/peering.md", "sh", "", "test/guide TestCommandsOfPeering", ""},
	{"docs/peering.md", "yaml", "", "test/guide TestCommandsOfPeering", ""},
	{"docs/performance.md", "sh", "make bench  ", "test/readme TestFlagsOfTheBenchmark", ""},
	{"docs/performance.md", "sh", "make bench BENCHFLAGS=", "", "twenty minutes; the flags are those of the block before"},
	{"docs/persistence.md", "yaml", "", "test/guide TestPersistence_StoredState", ""},
	{"docs/troubleshooting.md", "sh", "", "test/guide TestTroubleshooting_ThreeQuestions", ""},
}

// A test executes each block of the pages, or there is a reason. Go code is checked by TestDocs_GoCodeIsCompiled, and
// output by the tests of the commands.
func TestDocs_BlocksHaveTests(t *testing.T) {
	used := map[following]bool{}
	for _, path := range pages(t) {
		page, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := doctest.Steps(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			if step.Language == "" || step.Language == "go" {
				continue
			}
			if entry, ok := whoFollows(filepath.ToSlash(page), step); ok {
				used[entry] = true
			} else {
				t.Errorf("%s: no test executes this block; write one, and name it here:\n%s", page, step.Text)
			}
		}
	}
	for _, entry := range followed {
		switch folder, function, _ := strings.Cut(entry.test, " "); {
		case !used[entry]:
			t.Errorf("%s has no %s that begins with %q any more", entry.page, entry.language, entry.first)
		case entry.test == "" && entry.why == "":
			t.Errorf("%s, %s: neither a test nor a reason", entry.page, entry.language)
		case entry.test != "" && !declares(t, folder, function):
			t.Errorf("%s has no test %s", folder, function)
		}
	}
}

func whoFollows(page string, step doctest.Step) (following, bool) {
	for _, entry := range followed {
		if entry.page == page && entry.language == step.Language && strings.HasPrefix(step.Text, entry.first) {
			return entry, true
		}
	}
	return following{}, false
}

func declares(t *testing.T, folder, function string) bool {
	t.Helper()
	for _, file := range glob(t, folder+"/*_test.go") {
		if strings.Contains(read(t, file), "\nfunc "+function+"(t *testing.T)") {
			return true
		}
	}
	return false
}

// The check must detect missing entries.
func TestBlocks_DetectsMissingTests(t *testing.T) {
	for text, want := range map[string]bool{"make demo   # see it": true, "make cake": false} {
		if _, got := whoFollows("README.md", doctest.Step{Language: "sh", Text: text}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	if declares(t, "test/readme", "TestThatIsNotThere") {
		t.Error("it is found")
	}
}
