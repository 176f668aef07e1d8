// Command example runs one of the examples. It builds the operator, starts a control plane on this machine, creates the CRDs and samples, and shows
// the log of the operator. Ctrl-C stops everything.
//
//	go run ./hack/example [flags] [name [flags of the operator]]
//
// Without a name, it lists the examples. Start reading in stage.go. The exit code is 0 after Ctrl-C, 1 after an error, and 2 after an error
// in the command line.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

func main() {
	c := choice{input: os.Stdin}
	flag.StringVar(&c.cluster, "cluster", own, "cluster to use: own (a control plane for this example) or kubeconfig (the cluster of kubectl)")
	flag.StringVar(&c.context, "context", "", "context to use with -cluster=kubeconfig (default: the current context)")
	check := flag.Bool("check", false, "only check the arguments")
	flag.Parse()
	if flag.NArg() > 0 {
		c.name, c.args = flag.Arg(0), flag.Args()[1:]
	}
	log.SetLogger(logr.Discard()) // this command reports to the screen
	ctx := program.UntilInterrupted()
	err := c.look(ctx)
	switch {
	case err == nil && c.name == "":
		err = list(os.Stdout, c.root)
	case err == nil && !*check:
		err = run(ctx, screen.New(os.Stdout), c)
	}
	if err != nil {
		if errors.Is(err, errUsage) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Fprintf(os.Stderr, "\nexample: FAILED: %v\n", err)
		os.Exit(1)
	}
}
