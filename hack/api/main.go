// Command api lists what the library exports, in a form in which each change is a line of a diff: for docs/api.txt.
//
//	go run ./hack/api [-check file]
//
// Without a flag it prints the list. With -check it compares it with a file, and exits with 1 if they differ. A
// type that is an alias of one of internal/ is listed by its name alone: what it has is not seen here.
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
	check := flag.String("check", "", "a file that is to have this list")
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

// compare tells what has gone, and what has come.
func compare(file, now string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	gone, come := missing(string(text), now), missing(now, string(text))
	if string(text) == now {
		return nil
	}
	for _, line := range gone {
		fmt.Println("- " + line)
	}
	for _, line := range come {
		fmt.Println("+ " + line)
	}
	return fmt.Errorf("%s is out of date: %d lines have gone, %d have come; run 'make api', and see VERSIONING.md for what that means", file, len(gone), len(come))
}

// missing are the lines of one text that another one has not.
func missing(text, other string) (lines []string) {
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
