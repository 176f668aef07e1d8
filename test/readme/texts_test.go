package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Readers search docs/troubleshooting.md for messages. Each message in its section "Texts" must occur in the code.
func TestTroubleshooting_TextsAreInTheCode(t *testing.T) {
	texts := textsOfTheCode(t)
	_, section, found := strings.Cut(read(t, filepath.Join(root, "docs/troubleshooting.md")), "\n## Texts\n")
	if !found {
		t.Fatal("docs/troubleshooting.md has no section Texts")
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1)
	if len(rows) < 30 {
		t.Errorf("number of texts = %d, want at least 30", len(rows))
	}
	for _, row := range rows {
		if !isInCode(row[1], texts) {
			t.Errorf("text %q is not in the code: correct the page", row[1])
		}
	}
}

// Each log message at error level must be in the section "Texts", with what it means or what to do.
func TestTroubleshooting_HasTheErrorsOfTheLog(t *testing.T) {
	_, section, _ := strings.Cut(read(t, filepath.Join(root, "docs/troubleshooting.md")), "\n## Texts\n")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1)
	found := 0
	for _, file := range sources(t) {
		for _, message := range errorsOfTheLog(t, file) {
			found++
			if !slices.ContainsFunc(rows, func(row []string) bool { return isInCode(row[1], []string{message}) }) {
				t.Errorf("%s: the log message %q is not in docs/troubleshooting.md: add what it means or what to do", file, message)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d log messages at error level found: the search is wrong", found)
	}
}

// errorsOfTheLog returns the constant messages of a file that are logged at error level.
func errorsOfTheLog(t *testing.T, file string) (messages []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		if method, ok := call.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Error" {
			if message, ok := joined(call.Args[1]); ok {
				messages = append(messages, message)
			}
		}
		return true
	})
	return messages
}

// sources returns the files of the library that run in an operator.
func sources(t *testing.T) []string {
	t.Helper()
	files := glob(t, "pkg/*/*.go", "pkg/*/*/*.go", "internal/*/*.go", "internal/*/*/*.go")
	return slices.DeleteFunc(files, func(file string) bool {
		return strings.HasSuffix(file, "_test.go") || regexp.MustCompile(`/(kopftest|conditionstest|apiserver|controlplane|explore|chromium|testhook)/`).MatchString(filepath.ToSlash(file))
	})
}

// TestTroubleshooting_TextsAreInTheCode must detect unknown texts.
func TestTexts_DetectsUnknownTexts(t *testing.T) {
	texts := []string{"the object %s is %d too large: %w", "other"}
	for text, want := range map[string]bool{
		"the object … is … too large": true,
		"is … too large: …":           true,
		"the object is too large":     false,
		"the object … other":          false,
		"…":                           false,
	} {
		if got := isInCode(text, texts); got != want {
			t.Errorf("isInCode(%q) = %t, want %t", text, got, want)
		}
	}
}

// isInCode reports whether one of the texts contains the constant parts of the given text in the same order. The
// character … separates the constant parts.
func isInCode(text string, texts []string) bool {
	pattern, letters := "", 0
	for i, part := range strings.Split(text, "…") {
		if i > 0 {
			pattern += `.*%.*`
		}
		part = strings.TrimSpace(part)
		letters += len(part)
		pattern += regexp.QuoteMeta(part)
	}
	if letters < 8 {
		return false // a short text would occur in many texts
	}
	// The ends of a text need no variable part, because it may be a part of a longer text.
	pattern = strings.TrimSuffix(strings.TrimPrefix(pattern, `.*%.*`), `.*%.*`)
	return slices.ContainsFunc(texts, regexp.MustCompile(`(?s)`+pattern).MatchString)
}

// textsOfTheCode returns the string literals of the library, with concatenations joined.
func textsOfTheCode(t *testing.T) (texts []string) {
	t.Helper()
	for _, file := range sources(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			text, ok := joined(n)
			if ok {
				texts = append(texts, text)
			}
			return !ok
		})
	}
	return texts
}

// joined returns the text of a literal or of a concatenation, with a placeholder for variable parts.
func joined(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if n.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(n.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if n.Op != token.ADD {
			return "", false
		}
		left, leftIs := joined(n.X)
		right, rightIs := joined(n.Y)
		if !leftIs {
			left = "%v"
		}
		if !rightIs {
			right = "%v"
		}
		return left + right, leftIs || rightIs
	}
	return "", false
}
