package watchcheck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/metrics"
	"github.com/kopf-runtime/kopf-runtime/internal/rbac"
)

// Reason says why a watch delivers no changes. It is a label of the metric.
type Reason string

// The reasons.
const (
	Forbidden Reason = "forbidden"  // an RBAC rule is missing, or the API server has rejected the credentials
	NotServed Reason = "not_served" // the API server does not serve the kind in this version
	Silent    Reason = "silent"     // the connection is open but delivers nothing
	Rejected  Reason = "rejected"   // the API server does not accept the selectors
	// Undecodable means that the informer can't decode an object and therefore delivers nothing.
	Undecodable Reason = "undecodable"
)

// maxParallelProbes limits one checker's parallel requests, which matters for caches with many namespaces.
const maxParallelProbes = 10

// Options configure a [Checker].
type Options struct {
	// Kind is the label in the metric and the log.
	Kind string
	GVK  schema.GroupVersionKind
	// Selector has the watch's label and field selectors; nil selects all objects.
	Selector *client.ListOptions
	// Client reads from the API server instead of a cache.
	Client client.WithWatch
	// Informer returns the kind's informer without waiting until it has synced.
	Informer func(context.Context) (cache.Informer, error)
	// CheckDecoding is called after each probe with the watch's namespace, and whether the watch seems to miss changes. If so, it can
	// return an error that names the objects that the informer can't decode. It is optional.
	CheckDecoding func(ctx context.Context, namespace string, missesChanges bool) error
	Interval      time.Duration
	Log           logr.Logger
}

// Checker checks one kind's watches. The cache has one for each of its namespaces, or a single one for the cluster.
type Checker struct {
	Options
	mu     sync.Mutex
	states map[string]*watchState // by namespace
}

// New returns a checker that does nothing before [Checker.Run].
func New(options Options) *Checker {
	return &Checker{Options: options, states: map[string]*watchState{}}
}

// Problem is a watch that delivers no changes.
type Problem struct {
	GVK       schema.GroupVersionKind
	Namespace string // the watch's namespace; empty for all namespaces
	Reason    Reason
	Age       time.Duration
	Err       error // from the API server or [Options.CheckDecoding]; nil for silent watches
}

// ProblemOf returns the problem of a watch whose requests have been failing since the given time. It returns false if the error doesn't
// show that the watch is forbidden or the kind is not served.
func ProblemOf(gvk schema.GroupVersionKind, namespace string, err error, since time.Time) (p Problem, found bool) {
	result := resultOfError(err)
	return Problem{GVK: gvk, Namespace: namespace, Reason: result.reason, Age: time.Since(since), Err: result.err}, result.reason != ""
}

func (p Problem) Error() string {
	where := "in all namespaces"
	if p.Namespace != "" {
		where = fmt.Sprintf("in namespace %q", p.Namespace)
	}
	age := p.Age.Round(time.Second)
	switch p.Reason {
	case Forbidden:
		return fmt.Sprintf("%s: the operator has not been allowed to watch objects %s for %s, and their changes go unnoticed: "+
			"grant the verbs list and watch: %v", p.GVK.Kind, where, age, rbac.Explain(p.Err))
	case NotServed:
		return fmt.Sprintf("%s: the API server has not served %s for %s: install the CustomResourceDefinition with this version, "+
			"or deploy an operator for a version that is served: %v", p.GVK.Kind, p.GVK.GroupVersion(), age, p.Err)
	case Rejected:
		return fmt.Sprintf("%s: the API server does not accept the selectors of WatchOnly or WithWatchSelector; custom resources can only be "+
			"selected by the selectableFields of their CustomResourceDefinition: %v", p.GVK.Kind, p.Err)
	case Undecodable:
		return p.Err.Error()
	default:
		return fmt.Sprintf("%s: the watch %s has delivered nothing for %s, although its connection is open: "+
			"look for a proxy or a firewall between the operator and the API server, or restart the operator", p.GVK.Kind, where, age)
	}
}

// Problems returns the watches that deliver no changes, sorted by namespace.
func (c *Checker) Problems() (problems []Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, namespace := range slices.Sorted(maps.Keys(c.states)) {
		if p, found := c.problem(namespace); found {
			problems = append(problems, p)
		}
	}
	return problems
}

func (c *Checker) problem(namespace string) (p Problem, found bool) {
	s := c.states[namespace]
	reason, since, err := s.diagnose(silentIntervals * c.Interval)
	return Problem{GVK: c.GVK, Namespace: namespace, Reason: reason, Age: time.Since(since), Err: err}, reason != ""
}

// Run checks the watches until the context is cancelled.
func (c *Checker) Run(ctx context.Context) {
	problems := metrics.NewWatchProblemCount(c.Kind)
	defer problems.Close()
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	var checked cache.Informer
	kind := changesProbe
	for {
		problems.Set(c.countProblems())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if checked == nil {
			checked = c.findInformer(ctx)
		}
		if checked != nil {
			watches := informersByNamespace(checked) // read every time, because the namespaces may change
			c.forgetOthers(watches)
			c.probeAll(ctx, kind, watches)
		}
		kind = changesProbe + streamProbe - kind // alternate between the two probes
	}
}

// findInformer returns the informer, or nil if the cache doesn't have it yet.
func (c *Checker) findInformer(ctx context.Context) cache.Informer {
	i, err := c.Informer(ctx)
	if err != nil {
		c.Log.V(1).Info("The informer to check is not available yet", "kind", c.Kind, "error", err.Error())
		return nil
	}
	if len(informersByNamespace(i)) == 0 {
		c.Log.V(1).Info("The watch is not checked: there are no namespaces, or the cache hides the resource version of its informer", "kind", c.Kind)
	}
	return i
}

// forgetOthers removes the states of namespaces that are no longer in the cache.
func (c *Checker) forgetOthers(watches map[string]informer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.states, func(namespace string, _ *watchState) bool {
		_, found := watches[namespace]
		return !found
	})
}

func (c *Checker) probeAll(ctx context.Context, kind probeType, watches map[string]informer) {
	var group errgroup.Group
	group.SetLimit(maxParallelProbes)
	for namespace, i := range watches {
		group.Go(func() error {
			kind, version := kind, i.LastSyncResourceVersion()
			if version == "" {
				kind = listProbe
			}
			result := c.probe(ctx, kind, namespace, version)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the result no longer counts
			}
			var undecodable error
			if c.CheckDecoding != nil {
				undecodable = c.CheckDecoding(ctx, namespace, c.isSuspicious(namespace, version, result) && c.staysAt(ctx, i, version))
			}
			c.recordResult(namespace, version, result, undecodable)
			return nil
		})
	}
	_ = group.Wait() // the functions never return an error
}

// isSuspicious reports whether a probe's result makes a watch suspicious.
func (c *Checker) isSuspicious(namespace, version string, result probeResult) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := watchState{}
	if s := c.states[namespace]; s != nil {
		next = *s
	}
	next.update(time.Now(), version, result)
	return !next.suspectSince.IsZero()
}

// maxLag is how long it should take at most until a busy kind's informer receives a change.
const maxLag = 5 * time.Second

// staysAt reports whether an informer stays at a version for a moment. A busy kind's informer always lags a little, but moves on.
func (c *Checker) staysAt(ctx context.Context, i informer, version string) bool {
	select {
	case <-time.After(min(maxLag, c.Interval/2)):
	case <-ctx.Done():
	}
	return i.LastSyncResourceVersion() == version
}

// recordResult records a probe's result, and logs when a problem starts or is over.
func (c *Checker) recordResult(namespace, version string, result probeResult, undecodable error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.states[namespace] == nil {
		c.states[namespace] = &watchState{}
	}
	s := c.states[namespace]
	s.update(time.Now(), version, result)
	s.undecodable = undecodable
	p, _ := c.problem(namespace)
	if p.Reason == s.logged {
		return
	}
	logger := c.Log.WithValues("kind", c.Kind, "namespace", namespace, "reason", cmp.Or(p.Reason, s.logged))
	if s.logged = p.Reason; p.Reason == "" {
		logger.Info("Watch has recovered")
	} else {
		logger.Info("Watch delivers no events; changes go unnoticed", "error", p.Error())
	}
}

// countProblems counts the problems by reason.
func (c *Checker) countProblems() map[string]int {
	count := map[string]int{string(Forbidden): 0, string(NotServed): 0, string(Rejected): 0, string(Silent): 0, string(Undecodable): 0}
	for _, p := range c.Problems() {
		count[string(p.Reason)]++
	}
	return count
}
