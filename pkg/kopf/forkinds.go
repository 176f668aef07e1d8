package kopf

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/kopf-runtime/kopf-runtime/internal/declare"
	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/watching"
)

// WhenServed lets the operator start even if the API server doesn't serve the kind yet, for example because its CustomResourceDefinition is
// installed later. Without the option, the start would fail. The operator handles the kind's objects for as long as the API server serves
// the kind. Other kinds aren't affected. The option can't be combined with [Resource.TriggerFrom].
//
// The kind has its own cache: see [WithKindCaches]. The operator discovers new kinds within seconds if it may watch
// CustomResourceDefinitions. If not, it asks the API server for its kinds every 10 seconds.
//
// Equivalent in kopf: the default.
func WhenServed() ResourceOption {
	return func(o *resourceOptions) { o.whenServed = true }
}

// ForKinds declares all kinds that match a selector, including those that the API server will serve later. The operator calls the function
// once for each kind. It returns the kind's declaration, usually with [Unstructured] or [Metadata]:
//
//	kopf.ForKinds(kopf.Kinds("*.example.com"), func(kind metav1.APIResource) kopf.Option {
//		gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
//		return kopf.For(kopf.Unstructured(gvk)).OnCreate("announce", announce)
//	})
//
// The operator starts and stops handling the kinds as described for [WhenServed]. Kinds without list and watch aren't selected. If a kind
// is declared several times, only the first declaration applies, and the operator logs a message. A declaration with [For] takes precedence
// over ForKinds. If a declaration is invalid, the operator logs the error and handles the other kinds. ForKinds doesn't support admission
// handlers or [Resource.TriggerFrom].
//
// Equivalent in kopf: resource selectors of decorators.
func ForKinds(selector KindSelector, declare func(kind metav1.APIResource) Option) Option {
	return optionFunc(func(o *Operator) {
		if declare == nil {
			o.addError(errors.New("ForKinds: the function is nil: pass a function that returns the declaration of a kind"))
		}
		if selector.err != nil {
			o.addError(fmt.Errorf("ForKinds: %w", selector.err))
		} else if selector.match == nil && len(selector.patterns) == 0 {
			o.addError(errors.New("ForKinds: the selector is empty: use Kinds or KindsFunc"))
		}
		o.selections = append(o.selections, &kindSelection{selector, declare, o})
	})
}

// WithKindCaches sets the options of the operator's own caches. Each kind of [WhenServed] or [ForKinds] has its own cache, so that missing
// permissions for one kind don't block the others. With [WithNamespaces], [WithNamespaceFunc], [WithWatchSelector] or [WithSharding], the
// other kinds share one. Pass the Cache field of the manager's options, for example to restrict the caches to the same namespaces. Without
// a DefaultTransform, these caches drop the objects' managedFields to save memory. Default: all namespaces, no restrictions.
func WithKindCaches(options cache.Options) Option {
	return optionFunc(func(o *Operator) { o.kinds.CacheOptions = options })
}

// WithLeanCaches saves memory. While an object has not changed since it was handled, the operator's caches contain only the digest of its
// last-handled configuration, and compute the text when it is needed. When the operator starts, it doesn't reconcile such objects unless there
// may be something to do. Default: whole objects in the manager's cache.
//
// The operator then has its own caches. Their options are those of [WithKindCaches]: pass the Cache field of the manager's options if it has
// selectors, transformations or options for single kinds. Without WithKindCaches, only its default namespaces apply. The manager's cache stays
// as it is. If other controllers of the process read the kind with the manager's client, there are two caches of it.
//
// Handlers and [Request.Client] get whole objects. The digest is visible to what is called for the cached objects: predicates, filter
// functions, map functions of related kinds, and indexers of the cache. It also protects the objects: if it is written to one by mistake, the
// operator still detects the next change, and only misses the old state once.
//
// Some kinds have whole objects in these caches: those whose annotations contain no text of the configuration, as with [WithRemote],
// [WithDigestOnly] or [progress.StatusBaseline], those with stores that users implement or combine, and those with [WithConditionsIn].
func WithLeanCaches() Option {
	return optionFunc(func(o *Operator) { o.kinds.Settings.LeanCaches = true })
}

// A KindSelector selects kinds for [ForKinds]. Create it with [Kinds] or [KindsFunc].
type KindSelector struct {
	patterns []watching.Pattern
	match    func(metav1.APIResource) bool
	err      error
}

// Kinds selects kinds by name. A pattern has one of these forms:
//
//   - "databases": the plural, singular, kind or short name, in the preferred version. If several kinds match, the one in the core group is
//     selected. If none of them is, the operator logs a message and selects no kind.
//   - "databases.example.com": a name with a group
//   - "databases.v1.example.com", "pods.v1": a name with a version, in one group or in any group
//   - "category:all": all kinds of a category
//   - "*.example.com", "*": [path.Match] wildcards, in names, groups and categories. Names with wildcards don't select Events.
//
// Equivalent in kopf: the arguments of decorators; "*" for kopf.EVERYTHING.
func Kinds(patterns ...string) KindSelector {
	parsed, err := watching.ParsePatterns(patterns...)
	return KindSelector{patterns: parsed, err: err}
}

// KindsFunc selects the kinds for which a function returns true, in their preferred versions. It never selects Events. The operator calls
// the function for all kinds at each discovery. If it panics, the kind isn't selected.
//
// Equivalent in kopf: a callable as a decorator's argument.
func KindsFunc(match func(kind metav1.APIResource) bool) KindSelector {
	if match == nil {
		return KindSelector{err: errors.New("KindsFunc(nil): pass a function")}
	}
	return KindSelector{match: match}
}

// String returns the patterns, or "a function" for [KindsFunc].
func (s KindSelector) String() string {
	if s.match != nil {
		return "a function"
	}
	texts := make([]string, len(s.patterns))
	for i, p := range s.patterns {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

// choose returns the selected kinds. Problems are panics of the function, and ambiguous patterns.
func (s KindSelector) choose(served []watching.Resource) (kinds []watching.Resource, problems []error) {
	if s.match == nil {
		kinds, ambiguous := watching.Select(s.patterns, served)
		for _, a := range ambiguous {
			problems = append(problems, a)
		}
		return kinds, problems
	}
	for _, r := range watching.Everything(served) {
		matches := false
		err := guard.Call("KindsFunc", func() error { matches = s.match(apiResource(r)); return nil })
		if err != nil {
			problems = append(problems, fmt.Errorf("%s, %s: %w", r.Kind, r.GroupVersion(), err))
		} else if matches {
			kinds = append(kinds, r)
		}
	}
	return kinds, problems
}

func apiResource(r watching.Resource) metav1.APIResource {
	return metav1.APIResource{
		Group: r.Group, Version: r.Version, Kind: r.Kind, Name: r.Plural, SingularName: r.Singular, ShortNames: r.ShortNames, Categories: r.Categories,
		Verbs: r.Verbs, Namespaced: r.Namespaced,
	}
}

// Choose implements [kinds.Selector].
func (s *kindSelection) Choose(served []watching.Resource) (chosen []watching.Resource, problems []error) {
	return s.selector.choose(served)
}

// String implements [kinds.Selector].
func (s *kindSelection) String() string { return s.selector.String() }

// selectors returns the declarations of ForKinds.
func (d *declared) selectors() (all []kinds.Selector) {
	for _, s := range d.selections {
		all = append(all, s)
	}
	return all
}

func (s *kindSelection) declarationOf(kind metav1.APIResource) (resource, error) {
	var option Option
	if err := guard.Call("the function of ForKinds", func() error { option = s.declare(kind); return nil }); err != nil {
		return nil, err
	}
	declared, ok := option.(resource)
	if !ok || reflect.ValueOf(declared).IsNil() {
		return nil, errors.New("the function of ForKinds must return a resource that For has created")
	}
	return declared, nil
}

// Declare implements [kinds.Selector]. It calls the user's function for a kind and checks the declaration.
func (s *kindSelection) Declare(r watching.Resource) (one *kinds.Kind, err error) {
	o := s.operator
	declared, err := s.declarationOf(apiResource(r))
	if err != nil {
		return nil, err
	}
	if declared.hasAdmission() {
		return nil, errors.New("admission handlers are not possible in ForKinds, because they are served from the start: use For")
	}
	if len(declared.triggerSources()) > 0 {
		return nil, errTriggerSources
	}
	reader := o.kinds.Clients.NewForKind(o.mgr)
	kind, err := declared.kind(o.mgr.GetScheme(), o.kinds.Settings.Store, reader)
	if err != nil {
		return nil, err
	}
	kind.Name = kinds.ControllerName(o.mgr, kind.Name)
	if err := checkKind(o.kinds, kind, declared); err != nil {
		return nil, err
	}
	if kind.GVK != r.GroupVersionKind {
		return nil, fmt.Errorf("the function of ForKinds must declare %s, but has declared %s", r.GroupVersionKind, kind.GVK)
	}
	o.kinds.Clients.Shared(o.mgr).Declare(kind.New())
	watched := watchedKind(kind, declared)
	watched.Client = reader
	return &watched, nil
}

// errTriggerSources rejects TriggerFrom for a kind that can stop and start again.
var errTriggerSources = errors.New("TriggerFrom is not possible with WhenServed and ForKinds, because a source can start only once: use Operator.Enqueue")

// checkKind returns a kind's mistakes that depend on the operator's options.
func checkKind(rt *kinds.Runtime, kind engine.Kind, r resource) error {
	return errors.Join(declare.CheckStorage(&rt.Settings, kind), checkFilters(rt, kind, r), rt.Ring.CheckKind(&kind), declare.CheckFinalizer(&rt.Settings, kind))
}
