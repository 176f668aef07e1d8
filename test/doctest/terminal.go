package doctest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A Terminal is where commands are typed.
type Terminal struct {
	Folder     string   // where it is
	Kubeconfig string   // of the cluster; kubectl keeps what it knows about it beside this file
	Programs   []string // folders with programs: before those of the PATH
}

// Type runs one line by the shell, and returns what it prints. The error has that too.
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
