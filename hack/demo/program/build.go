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

// Folder returns the folder of a package, given by its import path. It has to be called within the module.
func Folder(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "list", "-f", "{{.Dir}}", pkg)
	return strings.TrimSpace(out), err
}

// Build compiles the package in a folder, which may be of another module, into a file, given by its absolute
// path: with the race detector if this process has it, so that most of what is needed is in the cache.
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

// goCommand runs the go command, and returns what it prints.
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
