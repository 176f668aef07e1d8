// Command demo shows an operator at work on a real API server: it starts etcd and kube-apiserver
// on this machine, runs examples/01-minimal against them, creates an object, edits it and deletes
// it, and tells after each step what the operator has logged, how the object looks, and which
// requests were made. Nothing stays behind.
//
//	go run ./hack/demo [-keep]
//
// Read demo.go: it is the table of contents. The exit code is 0 after a complete demo, 1 when
// something was not as expected, and 130 when it was interrupted.
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
	keep := flag.Bool("keep", false, "stay up after the last step, to be tried out with kubectl, until Ctrl-C")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "demo: there are no arguments, only flags:")
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
