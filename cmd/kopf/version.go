package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the version of a release. The linker sets it: see .goreleaser.yaml.
var version string

// setVersion adds --version and the command version.
func setVersion(root *cobra.Command) {
	if version != "" {
		root.Version = version
	} else if info, ok := debug.ReadBuildInfo(); ok { // go install sets the version of the module
		root.Version = info.Main.Version
	}
	if root.Version == "" {
		root.Version = "(devel)"
	}
	line := fmt.Sprintf("kopf %s %s %s/%s\n", root.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	root.SetVersionTemplate(line)
	root.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version of the command, of Go, and the platform",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), line)
			return err
		},
	})
}
