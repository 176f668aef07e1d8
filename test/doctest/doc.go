// Package doctest lets tests follow the pages of the documentation. It returns the code blocks of a page and runs their
// commands in a shell.
//
//	steps, err := doctest.Steps("docs/deployment.md")
//	...
//	terminal := doctest.Terminal{Folder: folder, Kubeconfig: kubeconfig, Programs: []string{assets}}
//	for _, step := range steps {
//		for _, command := range step.Commands() {
//			output, err := terminal.Type(ctx, command)
//			...
//		}
//	}
//
// The package requires a POSIX shell. The programs in the commands must be in the given folders or on the PATH.
package doctest
