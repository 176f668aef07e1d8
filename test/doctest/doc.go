// Package doctest does what readers of the documentation do, for tests of it: it goes through the blocks of a page, and types the
// commands into a terminal.
//
//	steps, err := reader.Steps("docs/deployment.md")
//	...
//	terminal := reader.Terminal{Folder: folder, Kubeconfig: kubeconfig, Programs: []string{assets}}
//	for _, step := range steps {
//		for _, command := range step.Commands() {
//			output, err := terminal.Type(ctx, command)
//			...
//		}
//	}
//
// # Assumptions
//
// There is a POSIX shell, and the programs that commands name are in the given folders or on the PATH.
package doctest
