package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/hack/demo/program"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

const (
	// example is the import path of the operator, and operatorName the name of its binary and its user agent.
	example      = "github.com/kopf-runtime/kopf-runtime/examples/01-minimal"
	operatorName = "01-minimal"

	buildLimit = 15 * time.Minute // for a small machine with an empty cache
	startLimit = 3 * time.Minute  // longer than the timeouts of the control plane, which has better error messages
)

// setUp builds the operator, and starts the control plane and the operator.
func (d *demo) setUp(ctx context.Context) error {
	folder, err := program.Folder(ctx, example)
	if err != nil {
		return fmt.Errorf("run the demo in the git clone: %w", err)
	}
	if d.sample, err = readSample(filepath.Join(folder, "config", "samples", "database.yaml")); err != nil {
		return err
	}
	if d.temp, err = os.MkdirTemp("", "kopf-demo-"); err != nil {
		return err
	}
	file := filepath.Join(folder, "..", "..", "bin", "demo", operatorName)

	d.screen.Heading("Setup")
	if err := d.screen.During(ctx, buildLimit, "Building the operator, examples/01-minimal",
		"seconds, or 1 to 2 minutes when nothing is cached",
		func(ctx context.Context) error { return program.Build(ctx, folder, file) }); err != nil {
		return err
	}
	if err := d.screen.During(ctx, startLimit, "Starting etcd and kube-apiserver, installing the CRD", "about 10 seconds",
		func(ctx context.Context) error {
			return d.startControlPlane(ctx, filepath.Join(folder, "config", "crd"))
		}); err != nil {
		return err
	}
	return d.screen.During(ctx, stepLimit, "Starting the operator", "a second",
		func(ctx context.Context) error { return d.startOperator(ctx, file) })
}

func (d *demo) startControlPlane(ctx context.Context, crds string) (err error) {
	if d.cp, err = controlplane.StartContext(ctx, controlplane.Options{CRDPaths: []string{crds}, Audit: true}); err != nil {
		return err
	}
	d.requests = &requestTail{tail: d.cp.Audit()}
	config := rest.CopyConfig(d.cp.Config)
	config.UserAgent = "kopf-runtime-demo"
	d.user, err = client.New(config, client.Options{})
	return err
}

func (d *demo) startOperator(ctx context.Context, file string) (err error) {
	if err := d.cp.WriteKubeconfig(d.kubeconfig()); err != nil {
		return err
	}
	if d.operator, err = program.Start(file, nil, "KUBECONFIG="+d.kubeconfig()); err != nil {
		return err
	}
	d.log = &logTail{program: d.operator}
	err = d.await(ctx, "the operator starts its workers", func(context.Context) string {
		for _, line := range d.log.unseen() {
			if strings.Contains(line, "Starting workers") {
				return ""
			}
		}
		return "its log does not contain \"Starting workers\""
	})
	d.log.next() // skip the lines of the start
	return err
}

func (d *demo) kubeconfig() string { return filepath.Join(d.temp, "kubeconfig") }
