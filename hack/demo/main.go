// Command demo shows an operator on a real API server. It starts etcd and kube-apiserver on this machine, runs examples/01-minimal, and creates, edits
// and deletes an object. After each step, it prints the log of the operator, the object, and the requests. It stops everything at the end.
//
//	go run ./hack/demo [-keep]
//
// Start reading in demo.go. The exit code is 0 after a complete demo, 1 after an error, and 130 after an interrupt.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/hack/demo/screen"
)

func main() {
	keep := flag.Bool("keep", false, "continue after the last step, for use with kubectl, until Ctrl-C")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "demo: unexpected arguments; only these flags are allowed:")
		flag.Usage()
		os.Exit(2)
	}

	err := run(program.UntilInterrupted(), screen.New(os.Stdout), *keep)
	switch {
	case errors.Is(err, errInterrupted):
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(130)
	case err != nil:
		fmt.Fprintf(os.Stderr, "\ndemo: FAILED: %v\n", err)
		os.Exit(1)
	}
}
