package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMessages(t *testing.T) {
	rules, err := readRules(filepath.Join("..", "..", stylesDir))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ code, want string }{
		"correct error":                          {`errors.New("handler \"x\": Retries must be positive")`, ""},
		"error with a final stop":                {`errors.New("it failed.")`, "no final stop"},
		"upper-case error":                       {`fmt.Errorf("Cannot read %s", name)`, "lower-case"},
		"error that starts with a name":          {`errors.New("OnCreate needs a function")`, ""},
		"error that starts with an abbreviation": {`errors.New("API server refused")`, ""},
		"banned word":                            {`errors.New("the handler is told nothing")`, "instead of 'told'"},
		"banned word in a concatenation":         {`errors.New("the handler " + name + " lets go")`, "instead of 'lets go'"},
		"correct log":                            {`logger.Info("Handler failed", "handler", id)`, ""},
		"lower-case log":                         {`log.FromContext(ctx).V(1).Info("handler failed")`, "upper-case"},
		"log of an error":                        {`logger.Error(err, "Somebody failed")`, "instead of 'Somebody'"},
		"other calls":                            {`t.Log("told.")`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "code.go")
			if err := os.WriteFile(file, []byte("package code\n\nfunc f() { "+test.code+" }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			findings, err := checkMessages(file, rules)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" && len(findings) > 0 || test.want != "" && (len(findings) != 1 || !strings.Contains(findings[0], test.want)) {
				t.Errorf("findings %q, want %q", findings, test.want)
			}
		})
	}
}

func TestCompareWithPending(t *testing.T) {
	findings := map[string][]string{"a.md": {"a.md:1: bad"}, "b.md": {"b.md:1: bad"}}
	var texts []string
	for _, problem := range compareWithPending(findings, []string{"b.md", "c.md"}) {
		texts = append(texts, problem.Error())
	}
	if len(texts) != 2 || texts[0] != "a.md:1: bad" || !strings.Contains(texts[1], "c.md follows the rules") {
		t.Errorf("got problems %q, want one for a.md and one for c.md", texts)
	}
}

func TestSubjects(t *testing.T) {
	for subject, bad := range map[string]bool{
		"engine: skip the reconcile caused by our own write": false,
		"Lint":                  true,
		"Add a page.":           true,
		strings.Repeat("x", 73): true,
		strings.Repeat("ö", 72): false,
	} {
		if got := len(subjectProblems(subject)) > 0; got != bad {
			t.Errorf("%q: rejected = %t, want %t", subject, got, bad)
		}
	}
}

func TestVale_FindsBannedWords(t *testing.T) {
	vale, err := filepath.Abs("../../bin/vale")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(vale); err != nil {
		t.Skip("bin/vale is missing: run make lint")
	}
	t.Chdir("../..")
	dir := t.TempDir()
	page, code := filepath.Join(dir, "page.md"), filepath.Join(dir, "code.go")
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(page, "# Page\n\nThe handler is told the state. In code, `told` is fine.\n")
	write(code, "// Package code is buried by somebody.\npackage code\n\nvar told = \"told\"\n")
	findings, err := runVale(vale, []string{page, code})
	if err != nil {
		t.Fatal(err)
	}
	if len(findings[page]) != 1 || !strings.Contains(findings[page][0], "page.md:3") {
		t.Errorf("got findings %q, want one in line 3 of the page", findings[page])
	}
	if len(findings[code]) != 2 || !slices.ContainsFunc(findings[code], func(text string) bool { return strings.Contains(text, "code.go:1") }) {
		t.Errorf("got findings %q, want two in line 1 of the code", findings[code])
	}
}
