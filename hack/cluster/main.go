// Command cluster starts etcd and kube-apiserver on this machine, for an operator to be tried out: an API server without
// nodes. It writes a kubeconfig, and ends with all that was in it at Ctrl-C.
//
//	go run ./hack/cluster [-kubeconfig bin/cluster.kubeconfig] [folders or files with CRDs]
//
// If kube-controller-manager has been built (make controller-manager), the garbage collector and some other controllers
// run, too.
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
	flags := flag.NewFlagSet("cluster", flag.ExitOnError) // controller-runtime has a -kubeconfig of its own among the common ones
	kubeconfig := flags.String("kubeconfig", filepath.Join("bin", "cluster.kubeconfig"), "file for the access to the cluster; removed at the end")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once; even then nothing stays behind
	if err := run(ctx, os.Stdout, *kubeconfig, flags.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run has a cluster for as long as the context lasts.
func run(ctx context.Context, out io.Writer, kubeconfig string, crds []string) (err error) {
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return err
	}
	if _, err := os.Stat(kubeconfig); err == nil {
		return fmt.Errorf("%s exists: another cluster may be using it; remove it, or name another file by -kubeconfig", kubeconfig)
	}
	cp, err := start(controlplane.Options{CRDPaths: crds, Controllers: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop(), os.Remove(kubeconfig)) }()
	if err := cp.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "The API server is up. In another terminal:\n\n  %s\n\nCtrl-C ends it, and all that is in it.\n",
		strings.Join(controlplane.Exports(kubeconfig), "\n  ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// start has the controllers, too, if they have been built.
func start(options controlplane.Options) (*controlplane.ControlPlane, error) {
	cp, err := controlplane.Start(options)
	if errors.Is(err, controlplane.ErrNoControllers) {
		options.Controllers = false
		return controlplane.Start(options)
	}
	return cp, err
}
