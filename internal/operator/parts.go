package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// A Part is something an operator needs while it runs. All its functions are optional.
type Part struct {
	// Name is how errors and the log call the part.
	Name string
	// Mistakes returns the mistakes in the part's options. It must look at nothing else, because it is also called without a manager, and
	// for permissions that a program prints outside the cluster.
	Mistakes func() []error
	// Check returns the mistakes that depend on the kinds or on the process's environment. It is called before anything runs.
	Check func(kinds []engine.Kind) []error
	// Rights returns the permissions that the part needs. namespace is the operator's namespace, which can be empty. Rights is called even
	// without a manager.
	Rights func(namespace string) []rbac.Need
	// NotReady returns why the part keeps the operator from being ready. It can be called at any time.
	NotReady func() []error
	// Open prepares the part. Once it has returned, later parts can use it. If it fails, it must clean up before it returns.
	Open func(ctx context.Context) (Running, error)
}

// Mistakes returns the mistakes in all parts' options.
func Mistakes(parts []Part) (errs []error) {
	for _, p := range parts {
		if p.Mistakes != nil {
			errs = append(errs, p.Mistakes()...)
		}
	}
	return errs
}

// Check returns the mistakes of all parts that depend on the kinds or on the process's environment.
func Check(parts []Part, kinds []engine.Kind) (errs []error) {
	for _, p := range parts {
		if p.Check != nil {
			errs = append(errs, p.Check(kinds)...)
		}
	}
	return errs
}

// Rights returns the permissions that all parts need. namespace is the operator's namespace.
func Rights(parts []Part, namespace string) (needs []rbac.Need) {
	for _, p := range parts {
		if p.Rights != nil {
			needs = append(needs, p.Rights(namespace)...)
		}
	}
	return needs
}

// NotReady returns why the operator is not ready, as one error, or nil if it is ready.
func NotReady(parts []Part) error {
	var errs []error
	for _, p := range parts {
		if p.NotReady != nil {
			errs = append(errs, p.NotReady()...)
		}
	}
	return errors.Join(errs...)
}

// Running is an open part. All its fields are optional.
type Running struct {
	// Run runs the part until the context is cancelled or the part fails.
	Run func(ctx context.Context) error
	// Last keeps the part running until all parts without Last have returned.
	Last bool
	// Close releases the part. It is called after the Run functions of all parts have returned.
	Close func()
}

// slowOpen is how long a part may take to open before the log names it.
const slowOpen = 15 * time.Second

// Run opens, runs and closes parts. It stops them when the context is cancelled or one of them fails, and returns once they have all
// returned. If a part cannot be opened, Run closes the earlier ones and returns its error.
func Run(ctx context.Context, log logr.Logger, parts []Part) error {
	var opened []Running
	defer func() {
		for _, one := range slices.Backward(opened) {
			if one.Close != nil {
				one.Close()
			}
		}
	}()
	names := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Open == nil {
			continue
		}
		one, err := open(ctx, log, p)
		if err != nil {
			return err
		}
		opened, names = append(opened, one), append(names, p.Name)
	}
	group, ctx := errgroup.WithContext(ctx)
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var others sync.WaitGroup
	for i, one := range opened {
		switch {
		case one.Run == nil:
		case one.Last:
			group.Go(func() error { return guard.Catch(names[i], func() error { return one.Run(last) }) })
		default:
			others.Add(1)
			group.Go(func() error {
				defer others.Done()
				return guard.Catch(names[i], func() error { return one.Run(ctx) })
			})
		}
	}
	go func() { others.Wait(); end() }()
	return group.Wait()
}

// open opens a part. If this takes long, it logs that, because the part may be waiting for something outside the operator.
func open(ctx context.Context, log logr.Logger, p Part) (one Running, err error) {
	slow := time.AfterFunc(slowOpen, func() {
		log.Info("The operator waits for one of its parts to start", "part", p.Name)
	})
	defer slow.Stop()
	err = guard.Catch(fmt.Sprintf("the start of %s", p.Name), func() (err error) {
		one, err = p.Open(ctx)
		return err
	})
	return one, err
}
