package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// surface returns a line for each exported name in the files of a package, sorted.
func surface(folder string, files []string) (lines []string, err error) {
	fset := token.NewFileSet()
	for _, name := range files {
		file, err := parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p := surfacePrinter{fset, iotaValues(file)} // iotaValues must run before FileExports removes unexported constants
		if !ast.FileExports(file) {
			continue
		}
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if !isReachable(decl) {
					continue
				}
				lines = append(lines, p.function(decl))
			case *ast.GenDecl:
				lines = append(lines, p.declaration(decl)...)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines), nil
}

// iotaValues returns the positions of constants that are defined by iota, because a new order changes their values.
func iotaValues(file *ast.File) map[*ast.ValueSpec]int {
	numbers := map[*ast.ValueSpec]int{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for i, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			counts := len(constant.Values) == 0
			ast.Inspect(constant, func(node ast.Node) bool {
				name, ok := node.(*ast.Ident)
				counts = counts || ok && name.Name == "iota"
				return true
			})
			if counts {
				numbers[constant] = i
			}
		}
	}
	return numbers
}

// isReachable reports whether other packages can call an exported function or method. The receiver type of a method must be
// exported.
func isReachable(decl *ast.FuncDecl) bool {
	if decl.Recv == nil {
		return true
	}
	receiver := decl.Recv.List[0].Type
	for {
		switch t := receiver.(type) {
		case *ast.StarExpr:
			receiver = t.X
		case *ast.IndexExpr:
			receiver = t.X
		case *ast.IndexListExpr:
			receiver = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return true
		}
	}
}

type surfacePrinter struct {
	fset    *token.FileSet
	numbers map[*ast.ValueSpec]int
}

func (p surfacePrinter) function(decl *ast.FuncDecl) string {
	decl.Body, decl.Doc = nil, nil
	return p.text(decl)
}

func (p surfacePrinter) declaration(decl *ast.GenDecl) (lines []string) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			lines = append(lines, p.values(decl.Tok, spec)...)
		case *ast.TypeSpec:
			lines = append(lines, p.typ(spec)...)
		}
	}
	return lines
}

// values lists variables and constants with their declared types, and the values of constants.
func (p surfacePrinter) values(tok token.Token, spec *ast.ValueSpec) (lines []string) {
	for i, name := range spec.Names {
		if !name.IsExported() {
			continue
		}
		line := tok.String() + " " + name.Name
		if spec.Type != nil {
			line += " " + p.text(spec.Type)
		}
		if tok == token.CONST && i < len(spec.Values) {
			line += " = " + p.text(spec.Values[i])
		}
		if number, ok := p.numbers[spec]; ok {
			line += fmt.Sprintf(" (number %d)", number)
		}
		lines = append(lines, line)
	}
	return lines
}

// typ lists a type, with a line for each field or method.
func (p surfacePrinter) typ(spec *ast.TypeSpec) []string {
	head := "type " + spec.Name.Name
	if spec.TypeParams != nil {
		var params []string
		for _, field := range spec.TypeParams.List {
			params = append(params, names(field)+" "+p.text(field.Type))
		}
		head += "[" + strings.Join(params, ", ") + "]"
	}
	if spec.Assign.IsValid() {
		return []string{head + " = " + p.text(spec.Type)}
	}
	switch typ := spec.Type.(type) {
	case *ast.StructType:
		return append([]string{head + " struct"}, p.members("type "+spec.Name.Name+" struct, ", typ.Fields)...)
	case *ast.InterfaceType:
		return append([]string{head + " interface"}, p.members("type "+spec.Name.Name+" interface, ", typ.Methods)...)
	}
	return []string{head + " " + p.text(spec.Type)}
}

func (p surfacePrinter) members(head string, fields *ast.FieldList) (lines []string) {
	for _, field := range fields.List {
		typ := p.text(field.Type)
		if len(field.Names) == 0 {
			lines = append(lines, head+"embeds "+typ+fieldTag(field))
		}
		for _, name := range field.Names {
			lines = append(lines, strings.TrimSpace(head+name.Name+" "+typ+fieldTag(field)))
		}
	}
	return lines
}

// fieldTag returns the tag of a field after a space, or an empty string. The JSON name and its options, such as omitempty, are part of the wire format.
func fieldTag(field *ast.Field) string {
	if field.Tag == nil {
		return ""
	}
	return " " + field.Tag.Value
}

func names(field *ast.Field) string {
	var all []string
	for _, name := range field.Names {
		all = append(all, name.Name)
	}
	return strings.Join(all, ", ")
}

// text formats a node on one line without comments.
func (p surfacePrinter) text(node ast.Node) string {
	var out bytes.Buffer
	if err := printer.Fprint(&out, p.fset, node); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
