package parity

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A line that denies what the documentation of an exported name offers must fail.
func TestNames_DenyNoEquivalent(t *testing.T) {
	found := equivalents(t)
	if !slices.Contains(found["settings.posting.reporting_component"], "events.KopfForm.Component") || !slices.Contains(found["old"], "kopf.Request.Old") {
		t.Fatalf("the equivalents were not found: %v", found)
	}
	for _, problem := range checkEquivalents(read(t, page), found) {
		t.Error(problem)
	}
}

// checkEquivalents returns the lines of the appendix that omit the names whose documentation says that they are the equivalent.
func checkEquivalents(text string, found map[string][]string) (problems []string) {
	for _, line := range names(text, func(string, ...any) {}) {
		if line.state == done || line.state == better {
			continue
		}
		ours := append(ourNames(line.here), ourNames(line.why)...)
		for _, of := range line.of {
			missed := found[strings.TrimPrefix(of, "kopf.")]
			if len(missed) > 0 && !slices.ContainsFunc(missed, func(name string) bool { return slices.Contains(ours, name) }) {
				problems = append(problems, fmt.Sprintf("%s is said to be %s, but the documentation says that its equivalent is %s: name it", of, line.state, strings.Join(missed, " or ")))
			}
		}
	}
	return problems
}

// A row that denies something names it, as in "no `kopf.Touch`", and the name must not exist.
func TestPage_DeniesOnlyWhatIsMissing(t *testing.T) {
	rows, _ := parse(read(t, page), func(string, ...any) {})
	for _, problem := range checkDenials(rows, exported(t)) {
		t.Error(problem)
	}
}

var (
	denial      = regexp.MustCompile(`(?i)^(?:there (?:is|are) no|this library has no|none|they have none|they are never|it is never|they are fixed|are not watched)\b|\bthere (?:is|are) no such\b`)
	deniedNames = regexp.MustCompile("\\bno ((?:, | and |`[A-Za-z]+(?:\\.[A-Za-z]+)+`)+)")
)

// checkDenials returns the rows that deny something without naming it, and those that deny what exists.
func checkDenials(rows map[string]row, api map[string]string) (problems []string) {
	for _, id := range ids() {
		row := rows[id]
		if row.state != different && row.state != nothing {
			continue
		}
		denied := deniedNames.FindAllString(row.why, -1)
		if denial.MatchString(row.why) && len(denied) == 0 {
			problems = append(problems, id+" denies something without naming it: write what does not exist, such as no `kopf.Touch`")
		}
		for _, name := range quoted.FindAllStringSubmatch(strings.Join(denied, " "), -1) {
			if _, exists := api[name[1]]; exists {
				problems = append(problems, fmt.Sprintf("%s denies %s, which exists: correct the row", id, name[1]))
			}
		}
	}
	return problems
}

func TestCheckDenials_DetectsProblems(t *testing.T) {
	rows := map[string]row{
		"KEY-01": {state: different, why: "There is no `kopf.Touch` (B-03)"},
		"KEY-02": {state: different, why: "There is no such bridge (B-03)"},
		"KEY-03": {state: nothing, why: "There is no `kopf.For`"},
		"KEY-04": {state: different, why: "Others (B-03)"},
	}
	expect(t, checkDenials(rows, map[string]string{"kopf.For": "pkg/kopf"}), []string{"KEY-02 denies something", "KEY-03 denies kopf.For"})
	text := "\n## Appendix A\n| `adopt` | nothing | n/a in Go | As above |\n| `label` | `kopf.Label` | different | B-03 |\n\n## Rules\n"
	found := map[string][]string{"adopt": {"kopf.Request.Adopt"}, "label": {"kopf.Label"}}
	expect(t, checkEquivalents(text, found), []string{"adopt is said to be n/a in Go"})
}

var equivalent = regexp.MustCompile(`(?s)Equivalent in kopf:(.*?)(?:\.\s|$)`)

// equivalents returns the exported names whose documentation names their equivalents in kopf, by these.
func equivalents(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		add := func(doc *ast.CommentGroup, parts ...string) {
			match := equivalent.FindStringSubmatch(doc.Text())
			if match == nil {
				return
			}
			for token := range strings.FieldsFuncSeq(match[1], func(r rune) bool { return strings.ContainsRune(" ,;()\n", r) }) {
				of := strings.TrimPrefix(strings.TrimPrefix(strings.TrimRight(token, "."), "@"), "kopf.")
				if name := file.Name.Name + "." + strings.Join(parts, "."); strings.Contains(kopfNames, of) && !slices.Contains(found[of], name) {
					found[of] = append(found[of], name)
				}
			}
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Recv == nil {
					add(decl.Doc, decl.Name.Name)
				} else {
					add(decl.Doc, receiver(decl.Recv.List[0].Type), decl.Name.Name)
				}
			case *ast.GenDecl:
				addSpecs(decl, add)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// addSpecs passes the documentation of types and of the fields of structs.
func addSpecs(decl *ast.GenDecl, add func(doc *ast.CommentGroup, parts ...string)) {
	for _, spec := range decl.Specs {
		one, isType := spec.(*ast.TypeSpec)
		if !isType {
			continue
		}
		doc := one.Doc
		if doc == nil {
			doc = decl.Doc
		}
		add(doc, one.Name.Name)
		if fields, isStruct := one.Type.(*ast.StructType); isStruct {
			for _, field := range fields.Fields.List {
				for _, name := range field.Names {
					add(field.Doc, one.Name.Name, name.Name)
				}
			}
		}
	}
}
