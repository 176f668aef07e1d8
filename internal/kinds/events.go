package kinds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/eventwatch"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watchcheck"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// eventNamespacesInterval is how often an operator with WithNamespaces compares its namespaces with the watched ones. It does so in memory.
const eventNamespacesInterval = time.Second

// eventWatches are the watches of one OnEventAbout handler: one for each kind of About and each namespace.
type eventWatches struct {
	unit      *Unit
	selection *EventSelection
	options   eventwatch.Options // without the namespace and the kind

	mu      sync.Mutex
	running map[watchedEvents]*eventwatch.Watcher
}

// watchedEvents says which Events a watch delivers.
type watchedEvents struct {
	namespace string // empty for all namespaces
	about     schema.GroupVersionKind
}

// prepareEventWatches returns the watches of the OnEventAbout handlers. It doesn't start them.
func (u *Unit) prepareEventWatches() (watches []*eventWatches, err error) {
	e := u.engine
	for _, s := range u.kind.Events {
		core, err := corev1client.NewForConfigAndClient(u.runtime.Manager.GetConfig(), u.runtime.Manager.GetHTTPClient())
		if err != nil {
			return nil, fmt.Errorf("watching Events: %w", err)
		}
		options := eventWatchOptions(e, s, u.runtime.Reporters, eventwatch.NewOwners(u.runtime.Manager.GetAPIReader(), e.GVK.GroupKind(), e.Namespaced, s.Read()))
		options.Client = core
		watches = append(watches, &eventWatches{unit: u, selection: s, options: options, running: map[watchedEvents]*eventwatch.Watcher{}})
	}
	return watches, nil
}

// run watches the Events until the context is cancelled.
func (w *eventWatches) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	if w.selection.Since > 0 { // the method namespaces explains why
		select {
		case <-w.unit.observed:
		case <-ctx.Done():
			return
		}
	}
	watch := func(ctx context.Context, namespace string) {
		for _, gvk := range w.selection.Kinds {
			group.Go(func() { w.runOne(ctx, watchedEvents{namespace, gvk}) })
		}
	}
	if w.unit.runtime.Namespaces == nil {
		for _, namespace := range w.namespaces() {
			watch(ctx, namespace)
		}
		return
	}
	watched := map[string]context.CancelFunc{}
	defer func() {
		for _, stop := range watched {
			stop()
		}
	}()
	ticker := time.NewTicker(eventNamespacesInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		desired := map[string]bool{}
		for _, namespace := range w.namespaces() {
			desired[namespace] = true
			if watched[namespace] == nil {
				namespaceCtx, stop := context.WithCancel(ctx)
				watched[namespace] = stop
				watch(namespaceCtx, namespace)
			}
		}
		for namespace, stop := range watched {
			if !desired[namespace] {
				stop()
				delete(watched, namespace)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// runOne runs one watch until the context is cancelled.
func (w *eventWatches) runOne(ctx context.Context, events watchedEvents) {
	options := w.options
	options.Namespace, options.Kind, options.Group = events.namespace, events.about.Kind, events.about.Group
	watcher := eventwatch.New(options)
	w.mu.Lock()
	w.running[events] = watcher
	w.mu.Unlock()
	watcher.Run(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[events] == watcher { // the namespace may be watched again
		delete(w.running, events)
	}
}

// namespaces returns the namespaces whose Events are watched; "" means all of them. With Since, a namespace is only watched once the
// operator has observed its objects. An annotation on the object records the newest handled Event, so no Event may arrive before its
// object.
func (w *eventWatches) namespaces() []string {
	namespaces, set := w.unit.eventNamespaces(), w.unit.runtime.Namespaces
	if w.selection.Since == 0 || set == nil || !w.unit.engine.Namespaced {
		return namespaces
	}
	return slices.DeleteFunc(namespaces, func(namespace string) bool { return !set.Handles(namespace) })
}

func (w *eventWatches) status(events watchedEvents) (status eventwatch.Status) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if watcher := w.running[events]; watcher != nil {
		status = watcher.Status()
	}
	return status
}

// problems returns the watches that the API server rejects, and errors for other watches that haven't listed the Events yet.
func (w *eventWatches) problems() (problems []watchcheck.Problem, unlisted []error) {
	for _, namespace := range w.namespaces() {
		for _, gvk := range w.selection.Kinds {
			status := w.status(watchedEvents{namespace, gvk})
			p, found := watchcheck.ProblemOf(eventKind, namespace, status.Err, status.Since)
			switch {
			case found && w.unit.runtime.WatchCheck > 0:
				problems = append(problems, p)
			case !status.Listed:
				unlisted = append(unlisted, errUnlisted(w.selection.ID, gvk.Kind, namespace, status.Err))
			}
		}
	}
	return problems, unlisted
}

var eventKind = corev1.SchemeGroupVersion.WithKind("Event")

// errUnlisted returns the error for a watch that hasn't listed the Events about a kind. err is the last request's error, or nil.
func errUnlisted(handler, kind, namespace string, err error) error {
	where := "in all namespaces"
	if namespace != "" {
		where = fmt.Sprintf("in namespace %q", namespace)
	}
	if err == nil {
		return fmt.Errorf("handler %q: the operator has not listed the Events about the kind %s %s yet", handler, kind, where)
	}
	return fmt.Errorf("handler %q: the operator has not listed the Events about the kind %s %s yet: %w", handler, kind, where, rbac.Explain(err))
}

// runEventWatches runs the watches of the OnEventAbout handlers until the context is cancelled. It updates the metric of their problems at
// the interval of WithWatchCheck.
func (u *Unit) runEventWatches(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for _, w := range u.eventWatches {
		group.Go(func() { w.run(ctx) })
	}
	if u.runtime.WatchCheck == 0 || len(u.eventWatches) == 0 {
		return
	}
	count := metrics.NewWatchProblemCount(ControllerName(u.runtime.Manager, "event"))
	defer count.Close()
	ticker := time.NewTicker(u.runtime.WatchCheck)
	defer ticker.Stop()
	for ctx.Err() == nil {
		numbers := map[string]int{string(watchcheck.Forbidden): 0}
		for _, w := range u.eventWatches {
			problems, _ := w.problems()
			for _, p := range problems {
				numbers[string(p.Reason)]++
			}
		}
		count.Set(numbers)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// eventNamespaces returns the namespaces whose Events are to be watched; "" means all of them.
func (u *Unit) eventNamespaces() (namespaces []string) {
	e, gvk := u.engine, u.engine.GVK
	if !e.Namespaced {
		gvk = schema.GroupVersionKind{}
	}
	if u.runtime.Namespaces != nil {
		namespaces = u.runtime.Namespaces.Names()
	} else if namespaces = u.runtime.CachedNamespaces(gvk, u.ownCache); len(namespaces) == 0 {
		return []string{""}
	}
	if !e.Namespaced {
		namespaces = WithDefaultNamespace(namespaces)
	}
	return namespaces
}
