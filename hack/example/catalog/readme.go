package catalog

import (
	"os"
	"path/filepath"
	"strings"
)

// Commands are those that the README tells its readers to type while the operator runs: the blocks of sh below
// "What you see", with an empty line between them.
func (e Example) Commands() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(e.Folder, "README.md"))
	if err != nil {
		return nil, err
	}
	var commands []string
	meanwhile, inside := false, false
	for line := range strings.Lines(string(text)) {
		switch line = strings.TrimRight(line, "\n"); {
		case inside && line == "```":
			inside = false
		case inside:
			commands = append(commands, line)
		case strings.HasPrefix(line, "## "):
			meanwhile = line == "## What you see"
		case meanwhile && line == "```sh":
			if inside = true; len(commands) > 0 {
				commands = append(commands, "")
			}
		}
	}
	return commands, nil
}
