package doctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Terminal runs shell commands.
type Terminal struct {
	Folder     string   // working directory
	Kubeconfig string   // path; kubectl stores its discovery cache in the same folder
	Programs   []string // folders that are added in front of the PATH
}

// Type runs one line in the shell and returns its output. An error contains the output, too.
func (t Terminal) Type(ctx context.Context, command string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir = t.Folder
	path := append(append([]string(nil), t.Programs...), os.Getenv("PATH"))
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+t.Kubeconfig, "KUBECACHEDIR="+filepath.Join(filepath.Dir(t.Kubeconfig), "cache"),
		"PATH="+strings.Join(path, string(os.PathListSeparator)))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), nil
}
