// Command example runs one of the examples on an API server on this machine, creates its samples, and shows its log until Ctrl-C.
//
//	go run ./hack/example [-cluster=memory] [-cluster=kubeconfig] [name [flags of the operator]]
//	go run ./hack/example -demo [-cluster=own] [-keep]
//
// Without a name, it lists the examples. With -demo, it runs 01-minimal, creates, edits and deletes an object, and shows the log, the object and the write
// requests after each step.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
)

// Values of the flag -cluster.
const (
	memory     = "memory"
	own        = "own"
	kubeconfig = "kubeconfig"
)

func main() {
	r := run{input: os.Stdin, out: os.Stdout}
	flag.StringVar(&r.cluster, "cluster", "", "cluster to use: memory (an API server in memory, the default of -demo), own (a control plane for this example, the default without -demo) or kubeconfig (the cluster of kubectl)")
	flag.StringVar(&r.context, "context", "", "context to use with -cluster=kubeconfig (default: the current context)")
	flag.BoolVar(&r.demo, "demo", false, "run 01-minimal step by step")
	flag.BoolVar(&r.keep, "keep", false, "continue after the last step of the demo, for use with kubectl, until Ctrl-C")
	check := flag.Bool("check", false, "only check the arguments")
	flag.Parse()
	if flag.NArg() > 0 {
		r.name, r.args = flag.Arg(0), flag.Args()[1:]
	}
	log.SetLogger(logr.Discard()) // this command prints its own messages
	ctx := program.UntilInterrupted()
	err := r.find(ctx)
	if err == nil && r.name != "" && !*check {
		err = r.run(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nexample: %v\n", err)
		os.Exit(1)
	}
}

// find checks the arguments and finds the example. Without a name, it lists all examples.
func (r *run) find(ctx context.Context) error {
	folder, err := program.Folder(ctx, "github.com/kopf-runtime/kopf-runtime/hack/example")
	if err != nil {
		return fmt.Errorf("run examples in a git clone of the project: %w", err)
	}
	all, err := catalog.All(filepath.Join(folder, "..", ".."))
	if err != nil {
		return err
	}
	if r.cluster == "" {
		r.cluster = own
		if r.demo {
			r.cluster = memory
		}
	}
	switch {
	case r.cluster != memory && r.cluster != own && r.cluster != kubeconfig:
		return fmt.Errorf("unknown cluster %q: CLUSTER must be %s (a control plane for this example, the default), %s (an API server in memory) or %s (the cluster of kubectl)",
			r.cluster, own, memory, kubeconfig)
	case r.context != "" && r.cluster != kubeconfig:
		return fmt.Errorf("CONTEXT=%s needs CLUSTER=%s", r.context, kubeconfig)
	case r.demo && (r.cluster == kubeconfig || r.name != ""):
		return fmt.Errorf("-demo needs -cluster=%s or -cluster=%s, and no name", memory, own)
	case r.demo:
		r.name = "01-minimal"
	case r.name == "":
		list(r, all)
		return nil
	}
	index := slices.IndexFunc(all, func(e catalog.Example) bool { return e.Name == r.name })
	if index < 0 {
		list(r, all)
		return fmt.Errorf("unknown example %q: use one of the above", r.name)
	}
	r.example = all[index]
	return nil
}

func list(r *run, all []catalog.Example) {
	r.sayf("make example NAME=<one of these>")
	for _, e := range all {
		r.sayf("  %-18s %s", e.Name, e.About)
	}
	r.sayf("\nCLUSTER=kubeconfig uses the cluster of kubectl, and ARGS=\"-flag\" passes flags to the operator.")
}
