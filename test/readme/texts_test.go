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

// Readers search docs/troubleshooting.md for a text that they see, so its section "Texts" must contain the texts of the
// code.
func TestTroubleshooting_TextsAreInTheCode(t *testing.T) {
	said := textsOfTheCode(t)
	_, section, found := strings.Cut(read(t, filepath.Join(root, "docs/troubleshooting.md")), "\n## Texts\n")
	if !found {
		t.Fatal("there is no section of texts")
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1)
	if len(rows) < 30 {
		t.Errorf("there are only %d texts", len(rows))
	}
	for _, row := range rows {
		if !isSaid(row[1], said) {
			t.Errorf("the code does not have the text %q; correct the page", row[1])
		}
	}
}

// The check must detect unknown texts.
func TestTexts_DetectsUnknownTexts(t *testing.T) {
	said := []string{"the object %s is %d too large: %w", "other"}
	for text, want := range map[string]bool{
		"the object … is … too large": true,
		"is … too large: …":           true,
		"the object is too large":     false,
		"the object … other":          false,
		"…":                           false,
	} {
		if got := isSaid(text, said); got != want {
			t.Errorf("isSaid(%q) = %t", text, got)
		}
	}
}

// isSaid reports whether the constant parts of a text follow each other in one of the texts of the code.
func isSaid(text string, said []string) bool {
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
		return false // it would be found anywhere
	}
	// The ends of a text need no variable part, because it may be a part of a longer text.
	pattern = strings.TrimSuffix(strings.TrimPrefix(pattern, `.*%.*`), `.*%.*`)
	return slices.ContainsFunc(said, regexp.MustCompile(`(?s)`+pattern).MatchString)
}

// textsOfTheCode returns the string literals of the library, with concatenations joined.
func textsOfTheCode(t *testing.T) (texts []string) {
	t.Helper()
	for _, file := range glob(t, "pkg/*/*.go", "pkg/*/*/*.go", "internal/*/*.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
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
