// Command pictures draws the pictures of the documentation. It writes an SVG file beside each docs/pictures/*.txt.
//
//	go run ./hack/pictures [folder]
//
// A source contains one item per line: boxes and stores on a grid of columns and rows, and arrows between neighbours.
//
//	box <name> <column> <row> <columns wide> "title" "line" ...
//	store <name> <column> <row> <columns wide> "title" "line" ...
//	arrow <from> <to> "label"
//
// The output is deterministic, and "make verify" compares it.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	folder := filepath.Join("docs", "pictures")
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(folder); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	sources, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("no *.txt files in %s: set the directory of the sources", folder)
	}
	for _, source := range sources {
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		p, err := parse(string(text))
		if err != nil {
			return fmt.Errorf("%s:%w", source, err)
		}
		if err := os.WriteFile(strings.TrimSuffix(source, ".txt")+".svg", []byte(p.svg()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
