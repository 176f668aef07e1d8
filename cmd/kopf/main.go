package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newRoot(os.Args[0]).ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// newRoot makes the command; it is called as it was, or as the plugin of kubectl that its file says it is.
func newRoot(file string) *cobra.Command {
	root := &cobra.Command{
		Use:           "kopf",
		Short:         "Look at operators, and at what they leave on objects",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	if strings.HasPrefix(filepath.Base(file), "kubectl-") {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kopf"}
	}
	root.AddCommand(newPeers(), newObjects())
	return root
}
