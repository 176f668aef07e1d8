package catalog

import (
	"os"
	"path/filepath"
	"strings"
)

// Commands returns the commands for users of a running operator: the sh blocks of the README below "What you see", separated by empty lines.
func (e Example) Commands() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(e.Folder, "README.md"))
	if err != nil {
		return nil, err
	}
	var commands []string
	inSection, inside := false, false
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimRight(line, "\n"); {
		case inside && line == "```":
			inside = false
		case inside:
			commands = append(commands, line)
		case strings.HasPrefix(line, "## "):
			inSection = line == "## What you see"
		case inSection && line == "```sh":
			if inside = true; len(commands) > 0 {
				commands = append(commands, "")
			}
		}
	}
	return commands, nil
}
