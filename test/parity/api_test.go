package parity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// exported returns the exported names of the packages for users, such as "kopf.For" and "kopf.Request.Object", each
// with the folder of its package.
func exported(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), root+"/")
		for _, name := range exportedBy(file) {
			names[file.Name.Name+"."+name] = folder
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func exportedBy(file *ast.File) (names []string) {
	add := func(parts ...string) {
		for _, part := range parts {
			if !ast.IsExported(part) {
				return
			}
		}
		names = append(names, strings.Join(parts, "."))
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				add(decl.Name.Name)
			} else {
				add(receiver(decl.Recv.List[0].Type), decl.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						add(name.Name)
					}
				case *ast.TypeSpec:
					add(spec.Name.Name)
					fields, _ := spec.Type.(*ast.StructType)
					if fields == nil {
						continue
					}
					for _, field := range fields.Fields.List {
						for _, name := range field.Names {
							add(spec.Name.Name, name.Name)
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of the type of a method.
func receiver(expr ast.Expr) string {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.StarExpr:
		return receiver(expr.X)
	case *ast.IndexExpr:
		return receiver(expr.X)
	case *ast.IndexListExpr:
		return receiver(expr.X)
	}
	return ""
}
