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

// newRoot returns the root command. The name of the executable determines whether the help shows kopf or kubectl kopf.
func newRoot(file string) *cobra.Command {
	root := &cobra.Command{
		Use:           "kopf",
		Short:         "Inspect operators and the state that they store on objects",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	if strings.HasPrefix(filepath.Base(file), "kubectl-") {
		root.Use = "kubectl-kopf" // the name in completion scripts
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kopf"}
	}
	setVersion(root)
	root.AddCommand(newPeers(), newObjects(), newWhy(), newPage(), newWatch(), newRetry(), newRollout(), newRBAC(), newInit())
	return root
}
