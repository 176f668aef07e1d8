// Command cluster starts an API server on this machine and writes a kubeconfig, so that you can try out an operator. The cluster has no nodes. Ctrl-C
// stops it and removes its data.
//
//	go run ./hack/cluster [-real] [-kubeconfig bin/cluster.kubeconfig] [directories or files with CRDs]
//
// By default, the API server runs in the memory of this process: it starts at once, but it has no
// webhooks and no access control. With -real, the command starts etcd and kube-apiserver. If kube-controller-manager was built
// (make controller-manager), it then also runs the garbage collector and some other controllers.
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

	"github.com/kopf-runtime/kopf-runtime/hack/local"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

func main() {
	flags := flag.NewFlagSet("cluster", flag.ExitOnError) // flag.CommandLine already has the flag -kubeconfig of controller-runtime
	kubeconfig := flags.String("kubeconfig", filepath.Join("bin", "cluster.kubeconfig"), "path of the kubeconfig to write; removed at the end")
	isReal := flags.Bool("real", false, "start etcd and kube-apiserver instead of an API server in memory")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process immediately
	if err := run(ctx, os.Stdout, *kubeconfig, *isReal, flags.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run runs a cluster until the context is cancelled.
func run(ctx context.Context, out io.Writer, kubeconfig string, isReal bool, crds []string) (err error) {
	if kubeconfig, err = filepath.Abs(kubeconfig); err != nil {
		return err
	}
	if _, err := os.Stat(kubeconfig); err == nil {
		return fmt.Errorf("%s exists, so another cluster may be using it: remove it, or set another path with -kubeconfig", kubeconfig)
	}
	server, err := start(ctx, isReal, crds)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop(), os.Remove(kubeconfig)) }()
	if err := server.WriteKubeconfig(kubeconfig); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "The API server is running. In another terminal:\n\n  %s\n\nCtrl-C stops it and removes its data.\n",
		strings.Join(local.Exports(kubeconfig), "\n  ")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func start(ctx context.Context, isReal bool, crds []string) (local.Server, error) {
	if isReal {
		server, _, err := local.ControlPlane(ctx, controlplane.Options{CRDPaths: crds})
		return server, err
	}
	read, err := local.ReadCRDs(crds)
	if err != nil {
		return nil, err
	}
	return local.Memory(read)
}
