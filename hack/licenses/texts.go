package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// platforms lists the operating systems of the released programs. Some dependencies are only for one of them.
var platforms = []string{"darwin", "linux", "windows"}

// writeTexts writes the license and notice files of Go and of all modules that the program contains. The result is the same for all platforms.
func writeTexts(file, program string) error {
	var folders []string // the name of each folder, a tab, and its path
	for _, platform := range platforms {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", program)
		cmd.Env = append(os.Environ(), "GOOS="+platform, "GOARCH=amd64", "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("go list for %s: %w", platform, err)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			if len(fields) != 3 {
				continue // a package of the standard library or of this module
			}
			// Copied code can have its own license in the folder of the package or above it.
			for folder := fields[2]; strings.HasPrefix(folder, fields[1]); folder = filepath.Dir(folder) {
				folders = append(folders, fields[0]+filepath.ToSlash(folder[len(fields[1]):])+"\t"+folder)
			}
		}
	}
	slices.Sort(folders)
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	folders = append([]string{"Go\t" + strings.TrimSpace(string(root))}, slices.Compact(folders)...)

	var all bytes.Buffer
	for i, line := range folders {
		name, folder, _ := strings.Cut(line, "\t")
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.IsDir() || filepath.Ext(entry.Name()) == ".go" || !isLicense(entry.Name()) && !strings.HasPrefix(strings.ToLower(entry.Name()), "notice") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return err
			}
			fmt.Fprintf(&all, "=== %s: %s\n\n%s\n\n", name, entry.Name(), bytes.TrimSpace(text))
		}
		if i == 0 && all.Len() == 0 {
			return fmt.Errorf("%s has no license of Go: use a distribution of Go from https://go.dev/dl", folder)
		}
	}
	return os.WriteFile(file, all.Bytes(), 0o644)
}
