package doctest

import (
	"os"
	"regexp"
	"strings"
)

// A Step is a block of a page: a file, if a line before it names one, or commands, or something else.
type Step struct {
	File     string // named by a line like `api/v1/types.go`:
	Language string // sh, go, yaml ...; none for output
	Text     string
}

var blocks = regexp.MustCompile("(?sm)(?:^`([\\w./-]+)`:\\n\\n)?^ *```(\\w*)\\n(.*?)^ *```")

// Steps returns the blocks of a page, in order.
func Steps(file string) (steps []Step, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, match := range blocks.FindAllStringSubmatch(string(text), -1) {
		steps = append(steps, Step{File: match[1], Language: match[2], Text: match[3]})
	}
	return steps, nil
}

var remark = regexp.MustCompile(`\s+#.*$`)

// Commands returns the lines of a block of sh, without the remarks at their ends; of other blocks, none.
func (s Step) Commands() (commands []string) {
	if s.Language != "sh" {
		return nil
	}
	for line := range strings.Lines(s.Text) {
		if command := remark.ReplaceAllString(strings.TrimSpace(line), ""); command != "" {
			commands = append(commands, command)
		}
	}
	return commands
}
