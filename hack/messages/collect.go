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
)

// gap replaces the parts of a message that are not constant.
const gap = "…"

// logMessage contains the levels, the keys and the packages of all calls that log one message.
type logMessage struct {
	levels, packages map[string]bool
	keys             []string
}

// collection contains the messages of all packages by their texts.
type collection struct {
	logs     map[string]*logMessage
	errors   map[string]map[string]bool // packages of each error
	problems []error
}

// logCall is a call of Info or Error, or a function that passes one of its parameters to such a call as the message.
type logCall struct {
	argument int // index of the message among the arguments
	level    string
	keys     []string
}

// packageCode is the syntax of one package.
type packageCode struct {
	*collection
	dir       string
	set       *token.FileSet
	constants map[string]string
	results   map[string][]string  // texts that a function returns, by function name
	wrappers  map[string][]logCall // wrappers by function name
	function  *ast.FuncDecl        // the function around the current call
}

// addPackage adds the messages of the package in a directory.
func (c *collection) addPackage(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	p := &packageCode{collection: c, dir: dir, set: token.NewFileSet(), constants: map[string]string{}, results: map[string][]string{}, wrappers: map[string][]logCall{}}
	var files []*ast.File
	for _, entry := range entries {
		if entry.IsDir() || !isProductFile(entry.Name()) {
			continue
		}
		file, err := parser.ParseFile(p.set, filepath.Join(dir, entry.Name()), nil, 0)
		if err != nil {
			return err
		}
		files = append(files, file)
		p.findConstants(file)
	}
	for range 2 { // a wrapper may call another wrapper
		for _, file := range files {
			p.findWrappers(file)
		}
	}
	for _, file := range files {
		p.collect(file)
	}
	return nil
}

func (p *packageCode) findConstants(file *ast.File) {
	p.function = nil
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if i >= len(spec.Values) {
				break
			}
			if texts := p.texts(spec.Values[i]); len(texts) == 1 && texts[0] != gap {
				p.constants[name.Name] = texts[0]
			}
		}
		return true
	})
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok {
			if texts := p.returnedTexts(function); len(texts) > 0 {
				p.results[function.Name.Name] = texts
			}
		}
	}
}

// returnedTexts returns the texts that a function returns. If the function returns other values, the result is empty.
func (p *packageCode) returnedTexts(function *ast.FuncDecl) (texts []string) {
	constant := function.Body != nil
	ast.Inspect(function, func(node ast.Node) bool {
		if statement, ok := node.(*ast.ReturnStmt); ok {
			if constant = constant && len(statement.Results) == 1; constant {
				texts = append(texts, p.texts(statement.Results[0])...)
			}
		}
		return true
	})
	if !constant || slices.Contains(texts, gap) {
		return nil
	}
	return texts
}

// findWrappers finds functions that log one of their parameters.
func (p *packageCode) findWrappers(file *ast.File) {
	p.inspect(file, func(call *ast.CallExpr, scopes []scope) {
		for _, c := range p.logCalls(call) {
			name, parameter := parameterOf(call.Args[c.argument], scopes)
			if name == "" {
				continue
			}
			wrapper := logCall{argument: parameter, level: c.level, keys: c.keys}
			if !slices.ContainsFunc(p.wrappers[name], func(w logCall) bool { return w.level == c.level && slices.Equal(w.keys, c.keys) }) {
				p.wrappers[name] = append(p.wrappers[name], wrapper)
			}
		}
	})
}

func (p *packageCode) collect(file *ast.File) {
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv != nil && function.Name.Name == "Error" && function.Body != nil {
			p.collectErrorMethod(function)
		}
	}
	p.inspect(file, func(call *ast.CallExpr, scopes []scope) {
		if isErrorCall(call) {
			for _, text := range p.texts(call.Args[0]) {
				p.addError(text)
			}
			return
		}
		for _, c := range p.logCalls(call) {
			if name, _ := parameterOf(call.Args[c.argument], scopes); name != "" {
				continue // the callers pass the text
			}
			for _, text := range p.texts(call.Args[c.argument]) {
				if countWords(text) == 0 {
					p.problems = append(p.problems, fmt.Errorf("%s: the log message is not constant", p.set.Position(call.Pos())))
					continue
				}
				p.addLog(text, c)
			}
		}
	})
}

// collectErrorMethod adds the texts that the method Error of an error type returns.
func (p *packageCode) collectErrorMethod(method *ast.FuncDecl) {
	p.function = method
	ast.Inspect(method.Body, func(node ast.Node) bool {
		statement, ok := node.(*ast.ReturnStmt)
		if !ok || len(statement.Results) != 1 {
			return true
		}
		result := statement.Results[0]
		if call, ok := result.(*ast.CallExpr); ok && isCallOf(call, "fmt", "Sprintf") {
			result = call.Args[0]
		}
		for _, text := range p.texts(result) {
			p.addError(text)
		}
		return true
	})
}

func (p *packageCode) addLog(text string, c logCall) {
	if succeeded, failed := strings.HasSuffix(text, " succeeded"), strings.Contains(text, " failed"); succeeded && c.level == "error" || failed && strings.HasPrefix(c.level, "debug") {
		return // the message is a variable, and the code does not log this value at this level
	}
	if p.logs == nil {
		p.logs = map[string]*logMessage{}
	}
	m := p.logs[text]
	if m == nil {
		m = &logMessage{levels: map[string]bool{}, packages: map[string]bool{}}
		p.logs[text] = m
	}
	m.levels[c.level], m.packages[p.dir] = true, true
	for _, key := range c.keys {
		if !slices.Contains(m.keys, key) {
			m.keys = append(m.keys, key)
		}
	}
}

var verb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.*]*[a-zA-Z]`)

// addError adds the text of an error. It ignores a text with less than two words, because the error only wraps other errors.
func (p *packageCode) addError(text string) {
	text = strings.TrimSpace(strings.ReplaceAll(verb.ReplaceAllString(text, gap), "%%", "%"))
	if countWords(text) < 2 {
		return
	}
	if p.errors == nil {
		p.errors = map[string]map[string]bool{}
	}
	if p.errors[text] == nil {
		p.errors[text] = map[string]bool{}
	}
	p.errors[text][p.dir] = true
}

func countWords(text string) int {
	return len(strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) }))
}

// scope is a function around a call.
type scope struct {
	name       string // empty for a function literal without a name
	parameters []string
}

// inspect calls visit for each call, with the enclosing functions in order from the outermost to the innermost.
func (p *packageCode) inspect(file *ast.File, visit func(call *ast.CallExpr, scopes []scope)) {
	names := map[*ast.FuncLit]string{}
	var stack []ast.Node
	var scopes []scope
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			switch stack[len(stack)-1].(type) {
			case *ast.FuncDecl, *ast.FuncLit:
				scopes = scopes[:len(scopes)-1]
			}
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, node)
		switch n := node.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				if literal, ok := value.(*ast.FuncLit); ok && i < len(n.Lhs) {
					if name, ok := n.Lhs[i].(*ast.Ident); ok {
						names[literal] = name.Name
					}
				}
			}
		case *ast.FuncDecl:
			p.function = n
			scopes = append(scopes, scope{n.Name.Name, parametersOf(n.Type)})
		case *ast.FuncLit:
			scopes = append(scopes, scope{names[n], parametersOf(n.Type)})
		case *ast.CallExpr:
			visit(n, scopes)
		}
		return true
	})
}

func parametersOf(function *ast.FuncType) (names []string) {
	for _, field := range function.Params.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(field.Names) == 0 {
			names = append(names, "_")
		}
	}
	return names
}

// parameterOf returns the function with the parameter that an argument names, and the index of the parameter.
func parameterOf(argument ast.Expr, scopes []scope) (function string, index int) {
	name, ok := argument.(*ast.Ident)
	if !ok {
		return "", 0
	}
	for _, s := range slices.Backward(scopes) {
		if i := slices.Index(s.parameters, name.Name); i >= 0 {
			return s.name, i
		}
	}
	return "", 0
}

func isErrorCall(call *ast.CallExpr) bool {
	return isCallOf(call, "errors", "New") || isCallOf(call, "fmt", "Errorf")
}

// isCallOf reports whether a call with arguments calls a function of an imported package.
func isCallOf(call *ast.CallExpr, packageName, function string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	from, _ := selector.X.(*ast.Ident)
	return from != nil && from.Name == packageName && selector.Sel.Name == function
}

// logCalls returns the log messages of a call. The result is empty unless the function called is a logger method or a wrapper.
func (p *packageCode) logCalls(call *ast.CallExpr) []logCall {
	name := ""
	var receiver ast.Expr
	switch function := call.Fun.(type) {
	case *ast.SelectorExpr:
		name, receiver = function.Sel.Name, function.X
	case *ast.Ident:
		name = function.Name
	}
	if from, ok := receiver.(*ast.Ident); ok && (from.Name == "http" || from.Name == "t") {
		return nil
	}
	switch {
	case receiver != nil && name == "Info" && len(call.Args) > 0:
		return []logCall{{argument: 0, level: p.infoLevel(receiver), keys: p.keysOf(call.Args[1:])}}
	case receiver != nil && name == "Error" && len(call.Args) > 1:
		return []logCall{{argument: 1, level: "error", keys: append([]string{"error"}, p.keysOf(call.Args[2:])...)}}
	}
	var calls []logCall
	for _, wrapper := range p.wrappers[name] {
		if wrapper.argument < len(call.Args) {
			wrapper.keys = append(slices.Clip(wrapper.keys), p.keysOf(call.Args[wrapper.argument+1:])...)
			calls = append(calls, wrapper)
		}
	}
	return calls
}

// infoLevel returns "info", or "debug" with the verbosity of the logger.
func (p *packageCode) infoLevel(logger ast.Expr) string {
	if name, ok := logger.(*ast.Ident); ok {
		logger = p.valueOf(name.Name)
	}
	call, ok := logger.(*ast.CallExpr)
	if !ok {
		return "info"
	}
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "V" && len(call.Args) == 1 {
		if verbosity, ok := call.Args[0].(*ast.BasicLit); ok {
			return "debug " + verbosity.Value
		}
	}
	return "info"
}

// keysOf returns the constant keys of a list of keys and values.
func (p *packageCode) keysOf(arguments []ast.Expr) (keys []string) {
	for i := 0; i < len(arguments); i += 2 {
		if texts := p.texts(arguments[i]); len(texts) == 1 && !strings.ContainsAny(texts[0], gap+" ") {
			keys = append(keys, texts[0])
		}
	}
	return keys
}

// texts returns the texts that an expression may have, with gaps for the parts that are not constant.
func (p *packageCode) texts(expr ast.Expr) []string {
	switch e := expr.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{text}
		}
	case *ast.Ident:
		if value := p.localConstant(e.Name); value != nil {
			return p.texts(value)
		}
		if text, ok := p.constants[e.Name]; ok {
			return []string{text}
		}
		if sum, ok := p.valueOf(e.Name).(*ast.BinaryExpr); ok {
			return p.texts(sum)
		}
	case *ast.CallExpr:
		name := ""
		switch function := e.Fun.(type) {
		case *ast.SelectorExpr:
			name = function.Sel.Name
		case *ast.Ident:
			name = function.Name
		}
		if texts := p.results[name]; texts != nil {
			return texts
		}
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			break
		}
		var texts []string
		for _, left := range p.texts(e.X) {
			for _, right := range p.texts(e.Y) {
				texts = append(texts, left+right)
			}
		}
		return texts
	}
	return []string{gap}
}

// valueOf returns the value of a local variable of the current function. It returns nil unless the variable is assigned once, with :=.
func (p *packageCode) valueOf(variable string) ast.Expr {
	if p.function == nil {
		return nil
	}
	var values []ast.Expr
	ast.Inspect(p.function, func(node ast.Node) bool {
		assignment, ok := node.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, left := range assignment.Lhs {
			if name, ok := left.(*ast.Ident); !ok || name.Name != variable {
				continue
			}
			if assignment.Tok == token.DEFINE && len(assignment.Lhs) == len(assignment.Rhs) {
				values = append(values, assignment.Rhs[i])
			} else {
				values = append(values, nil)
			}
		}
		return true
	})
	if len(values) != 1 {
		return nil
	}
	return values[0]
}

// localConstant returns the value of a constant of the current function.
func (p *packageCode) localConstant(name string) (value ast.Expr) {
	if p.function == nil {
		return nil
	}
	ast.Inspect(p.function, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok {
			for i, n := range spec.Names {
				if n.Name == name && i < len(spec.Values) {
					value = spec.Values[i]
				}
			}
		}
		return true
	})
	return value
}
