// Command example runs one of the examples. It builds the operator, starts a control plane on this machine, creates the CRDs and samples, and shows
// the log of the operator. Ctrl-C stops everything.
//
//	go run ./hack/example [flags] [name [flags of the operator]]
//	go run ./hack/example -demo [-keep]
//
// Without a name, it lists the examples. With -demo, it runs 01-minimal, and creates, edits and deletes an object. After each step, it prints the log of
// the operator, the object, and the requests.
//
// Start reading in stage.go, and for the demo in demo.go. The exit code is 0 after a complete demo, or after Ctrl-C while the command shows the log of an
// example. It is 130 after an earlier interrupt, 1 after an error, and 2 after an error in the command line.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/hack/example/screen"
)

func main() {
	c := choice{input: os.Stdin}
	flag.StringVar(&c.cluster, "cluster", own, "cluster to use: own (a control plane for this example) or kubeconfig (the cluster of kubectl)")
	flag.StringVar(&c.context, "context", "", "context to use with -cluster=kubeconfig (default: the current context)")
	flag.BoolVar(&c.demo, "demo", false, "run 01-minimal step by step on a control plane of its own")
	flag.BoolVar(&c.keep, "keep", false, "continue after the last step of the demo, for use with kubectl, until Ctrl-C")
	check := flag.Bool("check", false, "only check the arguments")
	flag.Parse()
	if flag.NArg() > 0 {
		c.name, c.args = flag.Arg(0), flag.Args()[1:]
	}
	log.SetLogger(logr.Discard()) // this command prints its own messages to the screen
	ctx := program.UntilInterrupted()
	err := c.resolve(ctx)
	switch {
	case err == nil && c.name == "":
		err = list(os.Stdout, c.root)
	case err == nil && !*check:
		err = run(ctx, screen.New(os.Stdout), c)
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(os.Stderr, "\nexample: %v\n", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\nexample: FAILED: %v\n", err)
		os.Exit(1)
	}
}
