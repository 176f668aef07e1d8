package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Validate adds an admission handler: it is called before an object is written through the API server, and its error
// says no. It is served by the manager's webhook server on every replica, leader or not, paused or not; see
// [WithWebhooks] for what it needs besides. Its options are those of package webhooks, on which it stands; filters of views
// ([Resource.When]) and middleware ([Resource.Use]) are for other handlers.
//
// A [Memo] is that of the object where this process handles the object already; else, and on creation, it is empty, and what is
// stored in it is lost.
//
// kopf: @kopf.on.validate.
func (r *Resource[T]) Validate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.addHook("Validate", id, func(lookUp memoLookup) webhooks.Hook {
		return webhooks.Validating(r.obj, id, withMemos(fn, lookUp), opts...)
	})
}

// Mutate adds an admission handler that may also change the object; see [Resource.Validate].
//
// kopf: @kopf.on.mutate.
func (r *Resource[T]) Mutate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.addHook("Mutate", id, func(lookUp memoLookup) webhooks.Hook {
		return webhooks.Mutating(r.obj, id, withMemos(fn, lookUp), opts...)
	})
}

// An admission is a handler that waits for an operator.
type hookBuilder func(memoLookup) webhooks.Hook

func (r *Resource[T]) addHook(method, id string, hook hookBuilder) *Resource[T] {
	if len(r.when) > 0 {
		r.errs = append(r.errs, fmt.Errorf("%s(%q): the When of a view cannot be told to the API server: "+
			"add the handler to the resource itself, and use webhooks.MatchConditions or webhooks.Label", method, id))
	}
	r.hooks = append(r.hooks, hook)
	return r
}

// WithWebhooks says how admission handlers are served: with which certificates, at which address, and who writes the webhook
// configurations. Default: the zero [webhooks.Options], which take certificates from files, and leave the
// configurations to somebody else.
//
// kopf: settings.admission.
func WithWebhooks(options webhooks.Options) Option {
	return optionFunc(func(o *Operator) {
		o.webhookOptions = &options
	})
}

// admits sets the admission handlers up with the manager, whose webhook server is started before anything else. With
// WithWebhooks, also if there are none: then an earlier version's entries are removed.
func (o *Operator) setupWebhooks() error {
	if o.mgr == nil {
		return nil // that is told elsewhere
	}
	var hooks []webhooks.Hook
	for _, r := range o.resources {
		hooks = append(hooks, r.buildHooks(o)...)
	}
	if len(hooks) == 0 && o.webhookOptions == nil {
		return nil
	}
	var options webhooks.Options
	if o.webhookOptions != nil {
		options = *o.webhookOptions
	}
	var err error
	if host, ok := o.mgr.(testhook.Host); ok {
		err = setupTestWebhooks(host, o.mgr, options, hooks)
	} else {
		err = webhooks.New(o.mgr, options).Add(hooks...).SetupWithManager()
	}
	if err != nil {
		return fmt.Errorf("the admission handlers: %w", err)
	}
	return nil
}

// setupTestWebhooks has handlers served as their host says. What the operator says is for production, and is only checked, as if in a pod.
func setupTestWebhooks(host testhook.Host, mgr manager.Manager, options webhooks.Options, hooks []webhooks.Hook) error {
	options.Namespace = cmp.Or(options.Namespace, metav1.NamespaceDefault)
	if err := webhooks.New(mgr, options).Add(hooks...).Check(); err != nil {
		return err
	}
	if len(hooks) == 0 {
		return nil
	}
	better := host.ServeAdmission()
	if better == nil {
		return nil
	}
	return webhooks.New(mgr, *better).Add(hooks...).SetupWithManager()
}

func (r *Resource[T]) buildHooks(o *Operator) (hooks []webhooks.Hook) {
	if isNil(r.obj) {
		return nil // that is told elsewhere
	}
	gvk, _ := apiutil.GVKForObject(r.obj, o.mgr.GetScheme()) // an unknown one is told elsewhere
	for _, hook := range r.hooks {
		hooks = append(hooks, hook(func(uid types.UID) *objectstate.Memos { return o.memosFor(gvk, uid) }))
	}
	return hooks
}

// memoLookup finds the memos of an object.
type memoLookup func(types.UID) *objectstate.Memos

// withMemos gives an admission handler the memos of its object, as other handlers have them.
func withMemos[T client.Object](fn webhooks.Handler[T], lookUp memoLookup) webhooks.Handler[T] {
	if fn == nil {
		return nil // that is a mistake, and is told as one
	}
	return func(ctx context.Context, req *webhooks.Request[T]) error {
		memos := &objectstate.Memos{}
		if uid := req.Object.GetUID(); req.Operation != admissionv1.Create && uid != "" {
			memos = lookUp(uid)
		}
		return fn(objectstate.ContextWithMemos(ctx, memos), req)
	}
}

// memosFor are those of an object that is handled here; else they are empty, and belong to nobody. To begin to remember an object
// because somebody has asked for it would be to take it for known.
func (o *Operator) memosFor(gvk schema.GroupVersionKind, uid types.UID) *objectstate.Memos {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.engines {
		if e.GVK == gvk {
			return e.Memos(uid)
		}
	}
	return &objectstate.Memos{}
}

// hasOnlyAdmission reports whether a resource has admission handlers and no others: its objects are not watched.
func (r *Resource[T]) hasOnlyAdmission() bool {
	return len(r.hooks) > 0 && len(r.handlers)+len(r.indexes) == 0
}

// idle tells of the options that are for handlers of objects that are watched.
func (o *resourceOptions) checkUnusedOptions() (errs []error) {
	for _, option := range []struct {
		name string
		used bool
	}{
		{"WithConditions", len(o.conditionTypes) > 0},
		{"WithRootCondition", o.rootCondition != nil},
		{"WithMaxConcurrentReconciles", o.concurrency != 0},
		{"WithControllerOptions", !reflect.ValueOf(o.controller).IsZero()},
		{"WithPredicates", len(o.predicates) > 0},
		{"WithResults", o.results != defaultResults},
	} {
		if option.used {
			errs = append(errs, fmt.Errorf("%s means nothing where there are only admission handlers, as the objects are not watched: "+
				"add another handler, such as OnReconcile, or leave it out", option.name))
		}
	}
	return errs
}

var errNoHandlers = errors.New("it has no handlers: add one, such as OnCreate")
