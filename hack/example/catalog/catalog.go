package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Example is a directory below examples/.
type Example struct {
	Name   string
	About  string // description from the list in the README of the project
	Folder string
}

var listed = regexp.MustCompile(`(?m)^- \[[^\]]+\]\(examples/([^)]+)\): (.+)$`)

// All returns the examples in the README of the project, in its order. root is the directory of the project.
func All(root string) ([]Example, error) {
	file := filepath.Join(root, "README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []Example
	for _, match := range listed.FindAllStringSubmatch(string(text), -1) {
		all = append(all, Example{Name: match[1], About: match[2], Folder: filepath.Join(root, "examples", match[1])})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s lists no examples: expected lines such as: - [01-minimal](examples/01-minimal): description", file)
	}
	return all, nil
}

// Main returns the directory of the main package, which is cmd in a kubebuilder project.
func (e Example) Main() string {
	if folder := filepath.Join(e.Folder, "cmd"); isFolder(folder) {
		return folder
	}
	return e.Folder
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
