package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
)

// Values of the flag -cluster and of CLUSTER in the Makefile.
const (
	own        = "own"
	kubeconfig = "kubeconfig"
)

// A choice contains the arguments of the command.
type choice struct {
	name    string
	args    []string // arguments of the operator
	cluster string
	context string    // context in the kubeconfig
	input   io.Reader // standard input; nil if it is not interactive
	demo    bool      // whether to run the demo
	keep    bool      // whether to continue after the demo

	root    string // directory of the project
	example catalog.Example
}

// errUsage marks errors in the command line.
var errUsage = errors.New("example")

// resolve validates the arguments and finds the example.
func (c *choice) resolve(ctx context.Context) error {
	folder, err := program.Folder(ctx, "github.com/kopf-runtime/kopf-runtime/hack/example")
	if err != nil {
		return fmt.Errorf("run examples in the git clone of the project: %w", err)
	}
	c.root = filepath.Join(folder, "..", "..")
	switch {
	case c.cluster != own && c.cluster != kubeconfig:
		return fmt.Errorf("%w: unknown cluster %q: CLUSTER must be %s (a control plane for this example, the default) or %s "+
			"(the cluster of kubectl)", errUsage, c.cluster, own, kubeconfig)
	case c.context != "" && c.cluster != kubeconfig:
		return fmt.Errorf("%w: CONTEXT=%s needs CLUSTER=%s", errUsage, c.context, kubeconfig)
	case c.demo && (c.cluster != own || c.name != ""):
		return fmt.Errorf("%w: -demo needs -cluster=%s and no name", errUsage, own)
	case c.demo:
		c.name = "01-minimal"
	case c.name == "":
		return nil
	}
	all, err := catalog.All(c.root)
	if err != nil {
		return err
	}
	index := slices.IndexFunc(all, func(e catalog.Example) bool { return e.Name == c.name })
	if index < 0 {
		var text strings.Builder
		_ = list(&text, c.root)
		return fmt.Errorf("%w: unknown example %q\n\n%s", errUsage, c.name, text.String())
	}
	c.example = all[index]
	return nil
}

// list prints the examples.
func list(out io.Writer, root string) error {
	all, err := catalog.All(root)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "make example NAME=<one of these>")
	for _, e := range all {
		_, _ = fmt.Fprintf(out, "  %-16s %s\n", e.Name, e.About)
	}
	_, err = fmt.Fprint(out, `
The example runs on its own control plane on this machine. CLUSTER=kubeconfig uses the cluster of kubectl instead; KUBECONFIG=file
and CONTEXT=name can select it. ARGS="-flag" passes flags to the operator.
`)
	return err
}
