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

// Folder returns the folder of a package, given by its import path.
func Folder(ctx context.Context, pkg string) (string, error) {
	out, err := goCommand(ctx, "list", "-f", "{{.Dir}}", pkg)
	return strings.TrimSpace(out), err
}

// Build compiles a package, given by its import path, into a file: with the race detector if this
// process has it, so that most of what is needed is in the cache.
func Build(ctx context.Context, pkg, file string) error {
	args := []string{"build", "-o", file, pkg}
	if racing() {
		args = slices.Insert(args, 1, "-race")
	}
	_, err := goCommand(ctx, args...)
	return err
}

func racing() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
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
