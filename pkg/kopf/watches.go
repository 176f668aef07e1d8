package kopf

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/internal/watchcheck"
)

const defaultWatchCheck = time.Minute

// WithWatchCheck sets the interval at which the operator checks whether the watches of its kinds and related kinds deliver changes. 0 disables
// the check. Each check sends one small request for each watch. There is one watch for each kind, or one for each kind and namespace if the
// cache is restricted to namespaces (see [WithNamespaces]). Default: one minute.
//
// [Operator.Readyz] fails if a watch is forbidden, if the API server does not serve the kind in the declared version, if an object does not decode and the
// cache of the manager is not [NewCache], or if the watch is silent. A silent watch has an open connection, but for two intervals the checks show that it misses changes or delivers nothing.
// [Operator.Healthz] fails if a watch is silent for longer than [WithStuckAfter]. The metric kopf_watch_problems counts the watches with
// problems.
//
// The check includes the watches of OnEventAbout handlers, but does not detect that they are silent. It sends no requests for them.
//
// The operator cannot check the informers of a custom cache (NewCache in the options of the manager) if they do not provide their resource version.
func WithWatchCheck(interval time.Duration) Option {
	return optionFunc(func(o *Operator) {
		if interval < 0 {
			o.addError(fmt.Errorf("WithWatchCheck must not be negative, got %s: use 0 to disable the check", interval))
		}
		if err := validation.DurationUnit(interval); err != nil {
			o.addError(fmt.Errorf("WithWatchCheck is %w", err))
		}
		o.watchCheck = interval
	})
}

// watchCheckers prepares the checks of all watches. The returned function runs the checks until its context ends.
func (g *kindGroup) watchCheckers(resources []resource) (run func(context.Context), err error) {
	o := g.operator
	if o.watchCheck == 0 || len(g.engines) == 0 {
		return func(context.Context) {}, nil
	}
	direct, err := client.NewWithWatch(o.mgr.GetConfig(), client.Options{
		HTTPClient: o.mgr.GetHTTPClient(), Scheme: o.mgr.GetScheme(), Mapper: o.mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("checking the watches: %w", err)
	}
	var checkers []*watchcheck.Checker
	checked := map[schema.GroupVersionKind]bool{}
	add := func(name string, gvk schema.GroupVersionKind, obj client.Object, informers cache.Cache) {
		checked[gvk] = true
		checkers = append(checkers, watchcheck.New(watchcheck.Options{
			Kind: name, GVK: gvk, Client: direct, Interval: o.watchCheck, Log: o.mgr.GetLogger(), CheckDecoding: g.decodingCheck(gvk),
			Informer: func(ctx context.Context) (cache.Informer, error) {
				return informers.GetInformer(ctx, obj, cache.BlockUntilSynced(false))
			},
		}))
	}
	for _, e := range g.engines {
		add(e.Name, e.GVK, e.New(), g.cache)
	}
	for _, r := range resources {
		for _, c := range r.relatedKinds() {
			if !checked[c.gvk] {
				add(o.controllerNameOf(strings.ToLower(c.gvk.Kind)), c.gvk, c.watched(), g.cache)
			}
		}
	}
	return func(ctx context.Context) {
		defer o.watches.checkers.Add(checkers...)()
		var group sync.WaitGroup
		for _, c := range checkers {
			group.Go(func() { c.Run(ctx) })
		}
		group.Wait()
	}, nil
}

// watches are the running watches of the operator.
type watches struct {
	checkers    operator.Set[*watchcheck.Checker]
	events      operator.Set[*eventWatches]
	undecodable *undecodable
}

// problems returns the problems of the watches of kinds and related kinds.
func (w *watches) problems() (problems []watchcheck.Problem) {
	for _, c := range w.checkers.All() {
		problems = append(problems, c.Problems()...)
	}
	return problems
}

// notReady returns the reasons why the operator does not receive changes or Events. Handlers have watches of their own, so it returns one error for each namespace
// with missing permissions for Events.
func (w *watches) notReady() (errs []error) {
	for _, p := range w.problems() {
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
