package doctest

import (
	"os"
	"regexp"
	"strings"
)

// Step is a code block of a page. It contains a file, shell commands, or any other text.
type Step struct {
	File     string // path of the file, if the line before the block is like `api/v1/types.go`:
	Language string // for example sh or go; empty for output
	Text     string
}

var blocks = regexp.MustCompile("(?sm)(?:^`([\\w./-]+)`:\\n\\n)?^ *```(\\w*)\\n(.*?)^ *```")

// Steps returns the code blocks of a Markdown file, in order.
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

var comment = regexp.MustCompile(`\s+#.*$`)

// Commands returns the non-empty lines of a sh block, without trailing comments. It returns nil for other blocks.
func (s Step) Commands() (commands []string) {
	if s.Language != "sh" {
		return nil
	}
	for line := range strings.Lines(s.Text) {
		if command := comment.ReplaceAllString(strings.TrimSpace(line), ""); command != "" {
			commands = append(commands, command)
		}
	}
	return commands
}
