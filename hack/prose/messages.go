package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// A rule is one pattern of a substitution style of Vale.
type rule struct {
	pattern     *regexp.Regexp
	replacement string
}

// readRules reads the substitution styles of Vale.
func readRules(dir string) (rules []rule, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the repository
		if err != nil {
			return nil, err
		}
		var style struct {
			Extends string            `json:"extends"`
			Swap    map[string]string `json:"swap"`
		}
		if err := yaml.Unmarshal(text, &style); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if style.Extends != "substitution" {
			continue
		}
		for pattern, replacement := range style.Swap {
			compiled, err := regexp.Compile("(?i)" + pattern)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			rules = append(rules, rule{compiled, replacement})
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("no rules in %s", dir)
	}
	slices.SortFunc(rules, func(a, b rule) int { return strings.Compare(a.pattern.String(), b.pattern.String()) })
	return rules, nil
}

// A message is a string literal that reaches users: an error or a log line.
type message struct {
	position token.Position
	text     string
	isLog    bool
}

// checkMessages checks the messages of one file.
func checkMessages(file string, rules []rule) (findings []string, err error) {
	messages, err := messagesOf(file)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		for _, problem := range m.problems(rules) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s: %q", file, m.position.Line, problem, m.text))
		}
	}
	return findings, nil
}

// messagesOf returns the string literals that are passed to errors.New, fmt.Errorf and the methods Info and Error of loggers.
func messagesOf(file string) (messages []message, err error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		from, _ := selector.X.(*ast.Ident)
		argument, isLog := -1, false
		switch name := selector.Sel.Name; {
		case from != nil && from.Name == "errors" && name == "New", from != nil && from.Name == "fmt" && name == "Errorf":
			argument = 0
		case name == "Info":
			argument, isLog = 0, true
		case name == "Error" && len(call.Args) > 1:
			argument, isLog = 1, true
		}
		if argument < 0 || argument >= len(call.Args) {
			return true
		}
		if text, ok := constantText(call.Args[argument]); ok {
			messages = append(messages, message{set.Position(call.Pos()), text, isLog})
		}
		return true
	})
	return messages, nil
}

// constantText returns the value of a string literal or a concatenation. Operands that are not constant count as empty.
func constantText(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		left, leftOK := constantText(e.X)
		right, rightOK := constantText(e.Y)
		return left + right, e.Op == token.ADD && (leftOK || rightOK)
	default:
		return "", false
	}
}

func (m message) problems(rules []rule) (problems []string) {
	for _, r := range rules {
		if found := r.pattern.FindString(m.text); found != "" {
			problems = append(problems, fmt.Sprintf("use '%s' instead of '%s'", r.replacement, found))
		}
	}
	first, size := utf8.DecodeRuneInString(m.text)
	second, _ := utf8.DecodeRuneInString(m.text[min(size, len(m.text)):])
	switch {
	case strings.HasSuffix(m.text, "."):
		problems = append(problems, "no final stop")
	case m.isLog && unicode.IsLower(first):
		problems = append(problems, "begin the log message with an upper-case letter")
	case !m.isLog && unicode.IsUpper(first) && !startsWithName(m.text, second):
		problems = append(problems, "begin the error with a lower-case letter")
	}
	return problems
}

// startsWithName reports whether a text begins with an identifier or an abbreviation, such as OnCreate, API or Kubernetes.
func startsWithName(text string, second rune) bool {
	word := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })[0]
	properNoun := slices.Contains([]string{"Kubernetes", "Go", "Events", "Secret", "Lease", "Retries", "Timeout", "Backoff", "Field", "Label", "Annotation", "Sharp", "Jitter", "Flush", "Owns"}, word)
	return unicode.IsUpper(second) || properNoun || strings.IndexFunc(word[1:], unicode.IsUpper) >= 0 || strings.HasPrefix(text[len(word):], "(")
}
