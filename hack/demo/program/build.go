package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Folder returns the folder of a package, given by its import path.
func Folder(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "list", "-f", "{{.Dir}}", pkg)
	return strings.TrimSpace(out), err
}

// Build compiles a package, given by its import path, into a file. The flags are those of go build.
func Build(ctx context.Context, pkg, file string, flags ...string) error {
	_, err := goCommand(ctx, append(append([]string{"build"}, flags...), "-o", file, pkg)...)
	return err
}

// goCommand runs the go command, and returns what it prints. It has to be called within the module.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it has processes of its own to end
	cmd.WaitDelay = 5 * time.Second
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, problems.String())
	}
	return out.String(), nil
}
