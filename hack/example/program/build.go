package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Folder returns the directory of a package. It must be called within the module.
func Folder(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "list", "-f", "{{.Dir}}", pkg)
	return strings.TrimSpace(out), err
}

// Build compiles the package in a directory, which may belong to another module, to a file with an absolute path. It uses the race detector if this process
// does, so that the build cache can be reused.
func Build(ctx context.Context, folder, file string) error {
	args := []string{"build", "-C", folder, "-o", file}
	if racing() {
		args = append(args, "-race")
	}
	_, err := goCommand(ctx, args...)
	return err
}

func racing() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// goCommand runs the go command and returns its output.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // an interrupt allows the command to end its child processes
	cmd.WaitDelay = 5 * time.Second
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, problems.String())
	}
	return out.String(), nil
}
