package readme

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/test/doctest"
)

// blockTest names the test that executes a code block, or the reason why there is no such test.
type blockTest struct {
	page, language string
	first          string // start of the block; empty for all blocks of the language on the page
	test           string // folder and function; empty if there is a reason
	why            string // reason; empty if there is a test
}

var blockTests = []blockTest{
	{"README.md", "sh", "make demo", "hack/example TestDemo", ""}, // TestDemo runs only `make demo`; other tests in the folder run `make example`
	{"docs/admission.md", "yaml", "", "test/guide TestManifestsOfAdmission", ""},
	{"docs/coming-from-kopf.md", "python", "", "", "Python code of kopf; its Go counterpart is compiled"},
	{"docs/coming-from-kopf.md", "sh", "", "test/guide TestTakingOver", ""},
	{"docs/coming-from-kopf.md", "yaml", "", "test/guide TestTakingOver_InMemory", ""},
	{"docs/day-in-the-life.md", "sh", "", "examples TestExamples", ""},
	{"docs/deployment.md", "dockerfile", "", "test/readme TestDockerfiles_BuildAndRunThePrograms", ""},
	{"docs/deployment.md", "sh", "", "test/guide TestUninstalling", ""},
	{"docs/deployment.md", "yaml", "", "test/guide TestDeploymentPage_PermissionsAreSufficient", ""},
	{"docs/errors.md", "console", "", "cmd/kopf TestRetry", ""},
	{"docs/getting-started.md", "sh", "", "test/guide TestGettingStarted", ""},
	{"docs/getting-started.md", "yaml", "", "test/guide TestGettingStarted", ""},
	{"docs/why.md", "console", "", "cmd/kopf TestWhy", ""},
	{"docs/why.md", "sh", "", "test/guide TestWhy_TokenOfThePage", ""},
	{"docs/why.md", "yaml", "", "cmd/kopf TestWhy_RoleOfThePage", ""},
	{"docs/multicluster.md", "yaml", "", "contrib/multicluster TestPage_RelabelingAddsTheCluster", ""},
	{"docs/monitoring.md", "sh", "", "contrib/monitoring TestPage_CommandsExist", ""}, // the test does not run the commands, which need an operator
	{"docs/peering.md", "sh", "", "test/guide TestCommandsOfPeering", ""},
	{"docs/peering.md", "yaml", "", "test/guide TestCommandsOfPeering", ""},
	{"docs/performance.md", "sh", "make bench  ", "test/readme TestBenchmark_HasDocumentedFlags", ""},
	{"docs/performance.md", "sh", "make bench BENCHFLAGS=", "", "takes up to an hour; TestBenchmark_HasDocumentedFlags checks the flags"},
	{"docs/persistence.md", "yaml", "", "test/guide TestPersistence_StoredState", ""},
	{"docs/troubleshooting.md", "sh", "", "test/guide TestTroubleshooting_Commands", ""},
	{"docs/upgrades.md", "console", "", "cmd/kopf TestRollout_Page", ""},
	{"docs/upgrades.md", "yaml", "", "test/guide TestUpgrades_StateOfARollout", ""},
}

// Each block must have a test that executes it, or a reason. TestDocs_GoCodeIsCompiled checks Go code. Tests of
// shell blocks also check the output of the commands.
func TestDocs_BlocksHaveTests(t *testing.T) {
	used := map[blockTest]bool{}
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
			if slices.Contains([]string{"", "go", "mermaid"}, step.Language) {
				continue
			}
			if entry, ok := findBlockTest(filepath.ToSlash(page), step); ok {
				used[entry] = true
			} else {
				t.Errorf("%s: no test executes this block: write a test and add it to blockTests:\n%s", page, step.Text)
			}
		}
	}
	for _, entry := range blockTests {
		switch folder, function, _ := strings.Cut(entry.test, " "); {
		case !used[entry]:
			t.Errorf("%s has no %s block that begins with %q: update blockTests", entry.page, entry.language, entry.first)
		case entry.test == "" && entry.why == "":
			t.Errorf("%s, %s: test and reason are empty, want one of them", entry.page, entry.language)
		case entry.test != "" && !declares(t, folder, function):
			t.Errorf("%s has no test %s", folder, function)
		}
	}
}

func findBlockTest(page string, step doctest.Step) (blockTest, bool) {
	for _, entry := range blockTests {
		if entry.page == page && entry.language == step.Language && strings.HasPrefix(step.Text, entry.first) {
			return entry, true
		}
	}
	return blockTest{}, false
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

// TestDocs_BlocksHaveTests must detect blocks without a test.
func TestBlocks_DetectsMissingTests(t *testing.T) {
	for text, want := range map[string]bool{"make demo   # see it": true, "make cake": false} {
		if _, got := findBlockTest("README.md", doctest.Step{Language: "sh", Text: text}); got != want {
			t.Errorf("findBlockTest(%q) = %t, want %t", text, got, want)
		}
	}
	if declares(t, "test/readme", "TestThatIsNotThere") {
		t.Error("declares = true for an unknown test, want false")
	}
}
