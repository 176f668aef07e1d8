// Command example runs one of the examples: it builds the operator, gets a control plane for it on this machine, applies
// what the operator needs and the samples, and shows what the operator logs until Ctrl-C, which ends it all.
//
//	go run ./hack/example [flags] [name [flags of the operator]]
//
// Without a name it lists the examples. Read stage.go: it is the table of contents. The exit code is 0 after Ctrl-C, 1 when
// something was not as expected, and 2 for mistakes in the command line.
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
	flag.StringVar(&c.cluster, "cluster", own, "which cluster: own, a control plane for this example alone; or kubeconfig, that of kubectl")
	flag.StringVar(&c.context, "context", "", "with -cluster=kubeconfig: the context, instead of the current one")
	check := flag.Bool("check", false, "only tell whether that can be run")
	flag.Parse()
	if flag.NArg() > 0 {
		c.name, c.args = flag.Arg(0), flag.Args()[1:]
	}
	log.SetLogger(logr.Discard()) // what is to be told is told by the screen
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
