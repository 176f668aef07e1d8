package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/kopf-runtime/kopf-runtime/hack/example/catalog"
	"github.com/kopf-runtime/kopf-runtime/hack/example/program"
	"github.com/kopf-runtime/kopf-runtime/hack/local"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// A run is one run of an example.
type run struct {
	name    string
	args    []string // of the operator
	cluster string
	context string // in the kubeconfig
	demo    bool
	keep    bool // continue after the demo
	example catalog.Example
	input   io.Reader // nil without one
	out     io.Writer

	folder   string       // a temporary one
	server   local.Server // nil for the cluster of kubectl
	config   *rest.Config
	client   client.Client
	operator *program.Program
	shown    int  // number of printed log lines
	follows  bool // the setup and the demo are over
}

var errInterrupted = errors.New("interrupted; everything was stopped")

func (r *run) sayf(format string, args ...any) { _, _ = fmt.Fprintf(r.out, format+"\n", args...) }

func (r *run) heading(title string) { r.sayf("\n=== %s\n", title) }

const (
	startLimit = time.Minute      // for the start of the workers
	stopLimit  = 30 * time.Second // for a graceful stop
	quiet      = time.Second      // time without a new log line after which the operator has started
	longStart  = 3 * time.Second  // limit of the wait for quiet, because some operators log continuously
)

// run runs the example until the context is cancelled, or until the end of the demo.
func (r *run) run(ctx context.Context) (err error) {
	if r.folder, err = os.MkdirTemp("", "kopf-example-"); err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			r.sayf("\nStopping everything.")
			if err = nil; !r.follows {
				err = errInterrupted
			}
		}
		err = errors.Join(err, r.stop())
		if r.server != nil {
			err = errors.Join(err, r.server.Stop())
		}
		err = errors.Join(err, os.RemoveAll(r.folder))
	}()
	r.heading(r.name + ": " + r.example.About)
	for _, step := range []func(context.Context) error{r.connect, r.build, r.prepare, r.start} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if r.demo {
		if err := r.play(ctx); err != nil || !r.keep {
			return err
		}
	}
	if err := r.create(ctx, false); err != nil {
		return err
	}
	if err := r.explain(); err != nil {
		return err
	}
	r.follows = true
	return r.follow(ctx)
}

func (r *run) file() string   { return filepath.Join(r.folder, r.name) }
func (r *run) access() string { return filepath.Join(r.folder, "kubeconfig") }

// connect starts an API server, or uses the cluster of kubectl. The operator gets a kubeconfig with only this cluster.
func (r *run) connect(ctx context.Context) (err error) {
	switch r.cluster {
	case kubeconfig:
		err = r.useKubeconfig()
	case memory:
		err = r.startInMemory()
	default:
		err = r.startControlPlane(ctx)
	}
	if err != nil {
		return err
	}
	if r.config, err = clientcmd.BuildConfigFromFlags("", r.access()); err != nil {
		return err
	}
	r.config.UserAgent = "kopf-runtime-example"
	if r.client, err = client.New(r.config, client.Options{}); err != nil {
		return fmt.Errorf("connect to the cluster at %s: %w", r.config.Host, err)
	}
	return nil
}

func (r *run) startControlPlane(ctx context.Context) (err error) {
	r.sayf("Starting etcd and kube-apiserver (about 10 seconds) ...")
	var hasControllers bool
	if r.server, hasControllers, err = local.ControlPlane(ctx, controlplane.Options{Audit: r.demo}); err != nil {
		return err
	}
	if !hasControllers {
		r.sayf("Without controllers, so children are not deleted with their owners. To build them, run make controller-manager.")
	}
	r.sayf("The cluster is only for this example: %s. Pods never run. Your KUBECONFIG is not used.", r.server.Config().Host)
	return r.server.WriteKubeconfig(r.access())
}

func (r *run) startInMemory() error {
	crds, err := r.example.CRDs()
	if err != nil {
		return err
	}
	if r.server, err = local.Memory(crds); err != nil {
		return err
	}
	r.sayf("The API server runs in the memory of this process, only for this example: %s. Your KUBECONFIG is not used.", r.server.Config().Host)
	return r.server.WriteKubeconfig(r.access())
}

func (r *run) useKubeconfig() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).RawConfig()
	if err != nil {
		return err
	}
	config.CurrentContext = cmp.Or(r.context, config.CurrentContext)
	if config.Contexts[config.CurrentContext] == nil {
		return fmt.Errorf("no context %q in %s: set KUBECONFIG and CONTEXT so that 'kubectl cluster-info' shows your cluster, or remove CLUSTER=%s",
			config.CurrentContext, strings.Join(rules.GetLoadingPrecedence(), ":"), kubeconfig)
	}
	if err := errors.Join(clientcmdapi.MinifyConfig(&config), clientcmdapi.FlattenConfig(&config)); err != nil {
		return err
	}
	r.sayf("The example uses the context %q of kubectl. The created objects stay: see \"Clean up\" in examples/%s/README.md.", config.CurrentContext, r.name)
	return clientcmd.WriteToFile(config, r.access())
}

func (r *run) build(ctx context.Context) error {
	r.sayf("Building the operator (seconds, or one to two minutes with an empty cache) ...")
	return program.Build(ctx, r.example.Main(), r.file())
}

// prepare creates the CRDs, and the objects that the operator needs when it starts. An API server in memory has the CRDs already.
func (r *run) prepare(ctx context.Context) error {
	if r.cluster == memory {
		return r.create(ctx, true)
	}
	crds, err := r.example.CRDs()
	if err != nil {
		return err
	}
	for _, crd := range crds {
		if err := r.createOne(ctx, crd, "CRD "+crd.Spec.Names.Kind); err != nil {
			return err
		}
	}
	if err := envtest.WaitForCRDs(r.config, crds, envtest.CRDInstallOptions{MaxTime: startLimit}); err != nil {
		return fmt.Errorf("wait until the kinds are served: %w", err)
	}
	return r.create(ctx, true)
}

// create creates the samples: those that the operator needs when it starts, or the others.
func (r *run) create(ctx context.Context, first bool) error {
	samples, err := r.example.Objects("samples")
	if err != nil {
		return err
	}
	for _, obj := range samples {
		if catalog.IsPrerequisite(obj) != first {
			continue
		}
		if err := r.createOne(ctx, obj, "Sample "+obj.GetKind()+" "+obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// createOne creates an object unless it exists. A rejection is not an error, because some samples are invalid on purpose.
func (r *run) createOne(ctx context.Context, obj client.Object, what string) error {
	switch err := r.client.Create(ctx, obj); {
	case err == nil:
		r.sayf("* %s: created", what)
	case apierrors.IsAlreadyExists(err):
		r.sayf("* %s: exists already, unchanged", what)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		r.sayf("* %s: rejected: %v", what, err)
	default:
		return fmt.Errorf("create %s: %w", what, err)
	}
	return nil
}

// start starts the operator, and waits until its workers run and it has nothing more to say. Operators with webhooks have then written their configurations, so
// they see the creation of the samples.
func (r *run) start(ctx context.Context) (err error) {
	r.sayf("Starting the operator ...")
	namespace := cmp.Or(os.Getenv("POD_NAMESPACE"), "default") // for the Lease of a shard
	if r.operator, err = program.Start(r.file(), r.args, "KUBECONFIG="+r.access(), "POD_NAMESPACE="+namespace); err != nil {
		return err
	}
	var began, last time.Time // start of the workers, last log line
	size := 0
	return r.await(ctx, "start of its workers", func(log string) bool {
		if len(log) > size {
			size, last = len(log), time.Now()
		}
		if began.IsZero() && strings.Contains(log, "Starting workers") {
			began = last
		}
		return !began.IsZero() && (time.Since(last) > quiet || time.Since(began) > longStart)
	})
}

// await polls until done accepts the log lines that are not printed yet.
func (r *run) await(ctx context.Context, what string, done func(log string) bool) error {
	for limit := time.After(startLimit); ; {
		ended := isClosed(r.operator.Done()) // before reading the log, because the operator may log until its end
		if done(strings.Join(r.operator.Lines()[r.shown:], "\n")) {
			return nil
		}
		if ended {
			return fmt.Errorf("the operator has ended before the %s", what)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			return fmt.Errorf("the log does not show the %s within %s", what, startLimit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// explain prints commands for another terminal.
func (r *run) explain() error {
	commands, err := r.example.Commands()
	if err != nil {
		return err
	}
	r.heading("Your turn")
	r.sayf("In another terminal, as in examples/%s/README.md:\n", r.name)
	for _, line := range append(append(local.Exports(r.access()), "cd "+r.example.Folder), commands...) {
		r.sayf("  %s", line)
	}
	r.sayf("\nWith the first of these lines, make example NAME=%s CLUSTER=kubeconfig runs a second operator in this cluster.", r.name)
	r.sayf("\nPress Enter to stop or restart the operator, and Ctrl-C to stop everything. The log of the operator follows:\n")
	return nil
}

// follow shows the log until the context is cancelled. Enter stops the operator, and builds and starts it again.
func (r *run) follow(ctx context.Context) error {
	enters := r.enters()
	for ctx.Err() == nil {
		r.showLog()
		var ended <-chan struct{}
		if r.operator != nil {
			ended = r.operator.Done()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		case <-ended:
			if err := errors.Join(errEnded, r.stop()); enters == nil {
				return err
			}
			r.sayf("The operator has ended. Press Enter to start it again.")
		case _, more := <-enters:
			if !more {
				enters = nil
			} else if err := r.toggle(ctx); err != nil && ctx.Err() == nil {
				r.sayf("%v\nPress Enter to try again.", err) // the user may be editing the code
			}
		}
	}
	return nil
}

var errEnded = errors.New("the operator has ended")

// toggle stops or starts the operator.
func (r *run) toggle(ctx context.Context) error {
	if r.operator != nil {
		err := r.stop()
		r.sayf("The operator is stopped, and the cluster still runs. Press Enter to start it again.")
		return err
	}
	if err := r.build(ctx); err != nil {
		return err
	}
	return r.start(ctx)
}

// stop stops the operator if it runs.
func (r *run) stop() (err error) {
	if r.operator != nil {
		err = r.operator.Stop(stopLimit)
		if r.follows {
			r.showLog()
		}
		r.operator, r.shown = nil, 0
	}
	return err
}

// enters returns a channel with a value for each Enter. It is closed at the end of the input; nil without input.
func (r *run) enters() <-chan struct{} {
	if r.input == nil {
		return nil
	}
	typed := make(chan struct{})
	go func() {
		defer close(typed)
		for lines := bufio.NewScanner(r.input); lines.Scan(); {
			typed <- struct{}{}
		}
	}()
	return typed
}

// showLog prints the new log lines.
func (r *run) showLog() {
	for _, line := range r.newLines() {
		r.sayf("  %s", line)
	}
}

// newLines returns the log lines since the last call, without the date.
func (r *run) newLines() (lines []string) {
	if r.operator == nil {
		return nil
	}
	fresh := r.operator.Lines()[r.shown:]
	r.shown += len(fresh)
	for _, line := range fresh {
		if _, clock, found := strings.Cut(line, "T"); found && len(line)-len(clock) == len("2006-01-02T") {
			line = clock
		}
		lines = append(lines, strings.ReplaceAll(line, "\t", "  "))
	}
	return lines
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
