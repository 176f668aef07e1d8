// Command cluster starts etcd and kube-apiserver on this machine and writes a kubeconfig, so that you can try out an operator. The cluster has no
// nodes. Ctrl-C stops the cluster and removes its data.
//
//	go run ./hack/cluster [-kubeconfig bin/cluster.kubeconfig] [directories or files with CRDs]
//
// If kube-controller-manager was built (make controller-manager), the command also runs the garbage collector and some other controllers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

func main() {
	flags := flag.NewFlagSet("cluster", flag.ExitOnError) // flag.CommandLine already has the flag -kubeconfig of controller-runtime
	kubeconfig := flags.String("kubeconfig", filepath.Join("bin", "cluster.kubeconfig"), "path of the kubeconfig to write; removed at the end")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process immediately
	if err := run(ctx, os.Stdout, *kubeconfig, flags.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run runs a cluster until the context is cancelled.
func run(ctx context.Context, out io.Writer, kubeconfig string, crds []string) (err error) {
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return err
	}
	if _, err := os.Stat(kubeconfig); err == nil {
		return fmt.Errorf("%s exists, so another cluster may be using it: remove it, or set another path with -kubeconfig", kubeconfig)
	}
	cp, err := start(controlplane.Options{CRDPaths: crds, Controllers: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop(), os.Remove(kubeconfig)) }()
	if err := cp.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "The API server is running. In another terminal:\n\n  %s\n\nCtrl-C stops it and removes its data.\n",
		strings.Join(controlplane.Exports(kubeconfig), "\n  ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// start starts the control plane, with controllers if they were built.
func start(options controlplane.Options) (*controlplane.ControlPlane, error) {
	cp, err := controlplane.Start(options)
	if errors.Is(err, controlplane.ErrNoControllers) {
		options.Controllers = false
		return controlplane.Start(options)
	}
	return cp, err
}
