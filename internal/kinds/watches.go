package kinds

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
)

// watchCheckers prepares the checks of the unit's watches. The returned function runs them until its context is cancelled.
func (u *Unit) watchCheckers() (run func(context.Context), err error) {
	if u.runtime.WatchCheck == 0 {
		return func(context.Context) {}, nil
	}
	direct, err := client.NewWithWatch(u.runtime.Manager.GetConfig(), client.Options{
		HTTPClient: u.runtime.Manager.GetHTTPClient(), Scheme: u.runtime.Manager.GetScheme(), Mapper: u.runtime.Manager.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("checking the watches: %w", err)
	}
	var checkers []*watchcheck.Checker
	add := func(name string, gvk schema.GroupVersionKind, obj client.Object, selector *client.ListOptions) {
		checkers = append(checkers, watchcheck.New(watchcheck.Options{
			Kind: name, GVK: gvk, Selector: selector, Client: direct, Interval: u.runtime.WatchCheck, Log: u.runtime.Manager.GetLogger(), CheckDecoding: u.decodingCheck(gvk),
			Informer: func(ctx context.Context) (cache.Informer, error) {
				return u.cache.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
			},
		}))
	}
	add(u.engine.Name, u.engine.GVK, u.engine.New(), u.engine.Selector)
	for _, c := range u.related {
		add(ControllerName(u.runtime.Manager, strings.ToLower(c.GVK.Kind)), c.GVK, c.watched(), nil)
	}
	return func(ctx context.Context) {
		defer u.runtime.Watches.checkers.Add(checkers...)()
		var group sync.WaitGroup
		for _, c := range checkers {
			group.Go(func() { c.Run(ctx) })
		}
		group.Wait()
	}, nil
}

// Watches are the operator's running watches.
type Watches struct {
	checkers    operator.Set[*watchcheck.Checker]
	events      operator.Set[*eventWatches]
	undecodable *undecodable
}

// Problems returns the problems of the watches of kinds and related kinds.
func (w *Watches) Problems() (problems []watchcheck.Problem) {
	for _, c := range w.checkers.All() {
		problems = append(problems, c.Problems()...)
	}
	return problems
}

// NotReady says why the operator doesn't receive changes or Events. Each handler has its own watches, so if permissions for Events are
// missing, it returns just one error per namespace.
func (w *Watches) NotReady() (errs []error) {
	for _, p := range w.Problems() {
		errs = append(errs, p)
	}
	reported := map[string]bool{}
	for _, events := range w.events.All() {
		problems, unlisted := events.problems()
		for _, p := range problems {
			if !reported[p.Namespace] {
				errs = append(errs, p)
			}
			reported[p.Namespace] = true
		}
		errs = append(errs, unlisted...)
	}
	return errs
}
