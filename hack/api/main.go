// Command api lists the exported names of the library, one per line, so that each change is a line of a diff. The list is docs/api.txt.
//
//	go run ./hack/api [-check file]
//
// Without a flag, it prints the list. With -check, it compares the list with a file, and exits with code 1 if they differ. It
// lists aliases of types in internal/ without their fields and methods.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const module = "github.com/kopf-runtime/kopf-runtime/"

func main() {
	check := flag.String("check", "", "compare the list with this file")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(check string) error {
	out, err := exec.Command("go", "list", "-f", "{{.ImportPath}} {{.Dir}} {{join .GoFiles \" \"}}", "./pkg/...").Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	var list strings.Builder
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		lines, err := surface(words[1], words[2:])
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(words[0], module)
		for _, l := range lines {
			list.WriteString(name + ": " + l + "\n")
		}
	}
	if check == "" {
		fmt.Print(list.String())
		return nil
	}
	return compare(check, list.String())
}

// compare prints the removed and the added lines, and returns an error if there are any.
func compare(file, now string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	removed, added := linesWithout(string(text), now), linesWithout(now, string(text))
	if string(text) == now {
		return nil
	}
	for _, line := range removed {
		fmt.Println("- " + line)
	}
	for _, line := range added {
		fmt.Println("+ " + line)
	}
	return fmt.Errorf("%s is out of date: %d lines removed, %d added: run 'make api', and read VERSIONING.md", file, len(removed), len(added))
}

// linesWithout returns the lines of a text that are missing in another text.
func linesWithout(text, other string) (lines []string) {
	there := map[string]bool{}
	for line := range strings.Lines(other) {
		there[line] = true
	}
	for line := range strings.Lines(text) {
		if !there[line] {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}
