package kopf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
	"github.com/kopf-runtime/kopf-runtime/internal/objectstate"
	"github.com/kopf-runtime/kopf-runtime/internal/testhook"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Validate adds an admission handler. The API server calls it before storing an object, and rejects the request if the handler returns an
// error. The manager's webhook server serves the handler on every replica, even on paused ones and on those that aren't the leader. See
// [WithWebhooks] for certificates and webhook configurations. The options are defined in package webhooks. [Resource.Use] doesn't apply to
// admission handlers, and [Resource.When] can't be combined with them.
//
// If this process already handles the object, the handler shares its [Memo] values with the other handlers. Otherwise, including when the
// object is created, the memo is empty and stored values are lost.
//
// Equivalent in kopf: @kopf.on.validate.
func (r *Resource[T]) Validate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.addHook("Validate", id, func(lookUp memoLookup) webhooks.Hook {
		return webhooks.Validating(r.obj, id, withMemos(fn, lookUp), opts...)
	})
}

// Mutate adds an admission handler that can change the object. See [Resource.Validate].
//
// Equivalent in kopf: @kopf.on.mutate.
func (r *Resource[T]) Mutate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.addHook("Mutate", id, func(lookUp memoLookup) webhooks.Hook {
		return webhooks.Mutating(r.obj, id, withMemos(fn, lookUp), opts...)
	})
}

func (r *Resource[T]) addHook(method, id string, hook hookBuilder) *Resource[T] {
	if len(r.when) > 0 {
		r.errs = append(r.errs, fmt.Errorf("%s(%q): the API server cannot evaluate the function of When: "+
			"add the handler to the resource itself, and use webhooks.When, webhooks.MatchConditions or webhooks.Label", method, id))
	}
	r.hooks = append(r.hooks, hook)
	return r
}

// WithWebhooks sets the options for serving admission handlers: the certificates, the address, and the writer of the webhook
// configurations. Default: the zero [webhooks.Options], which read certificates from files and don't write configurations.
//
// Equivalent in kopf: settings.admission.
func WithWebhooks(options webhooks.Options) Option {
	return optionFunc(func(o *Operator) {
		o.webhookOptions = &options
	})
}

// setupWebhooks registers the admission handlers with the manager. With WithWebhooks, it sets up package webhooks even without handlers, so
// that the entries of an earlier version are removed from managed configurations.
func (o *Operator) setupWebhooks() error {
	if o.mgr == nil {
		return nil // reported by CheckDeclaration
	}
	var hooks []webhooks.Hook
	for _, r := range o.resources {
		hooks = append(hooks, r.buildHooks(o)...)
	}
	if o.kinds.ServesAdmission = len(hooks) > 0; !o.kinds.ServesAdmission && o.webhookOptions == nil {
		return nil
	}
	if m, ok := o.mgr.(kinds.ClusterManager); ok {
		return fmt.Errorf("the operator of cluster %q has admission handlers or WithWebhooks, but all clusters share one webhook server: "+
			"move them into an operator of the manager itself", m.ClusterName())
	}
	var options webhooks.Options
	if o.webhookOptions != nil {
		options = *o.webhookOptions
	}
	var err error
	if host, ok := o.mgr.(testhook.AdmissionHost); ok {
		err = setupTestWebhooks(host, o.mgr, options, hooks)
	} else {
		err = webhooks.New(o.mgr, options).Add(hooks...).SetupWithManager()
	}
	if err != nil {
		return fmt.Errorf("setting up the admission handlers: %w", err)
	}
	return nil
}

// setupTestWebhooks serves the handlers with the options of package kopftest. The operator's own options are for production, so it only
// checks them. The check uses the namespace "default" if none is set, because tests don't run in a pod.
func setupTestWebhooks(host testhook.AdmissionHost, mgr manager.Manager, options webhooks.Options, hooks []webhooks.Hook) error {
	options.Namespace = cmp.Or(options.Namespace, metav1.NamespaceDefault)
	if err := webhooks.New(mgr, options).Add(hooks...).Check(); err != nil {
		return err
	}
	if len(hooks) == 0 {
		return nil
	}
	testOptions := host.AdmissionOptions()
	if testOptions == nil {
		return nil
	}
	return webhooks.New(mgr, *testOptions).Add(hooks...).SetupWithManager()
}

func (r *Resource[T]) buildHooks(o *Operator) (hooks []webhooks.Hook) {
	if isNil(r.obj) {
		return nil // the nil object is reported by CheckDeclaration
	}
	gvk, _ := apiutil.GVKForObject(r.obj, o.mgr.GetScheme()) // an unknown kind is reported by CheckDeclaration
	for _, hook := range r.hooks {
		hooks = append(hooks, hook(func(uid types.UID) *objectstate.Memos { return o.kinds.MemosOf(gvk, uid) }))
	}
	return hooks
}

// withMemos adds the object's memos to the admission handler's context.
func withMemos[T client.Object](fn webhooks.Handler[T], lookUp memoLookup) webhooks.Handler[T] {
	if fn == nil {
		return nil // reported by package webhooks
	}
	return func(ctx context.Context, req *webhooks.Request[T]) error {
		memos := &objectstate.Memos{}
		if uid := req.Object.GetUID(); req.Operation != admissionv1.Create && uid != "" {
			memos = lookUp(uid)
		}
		return fn(objectstate.ContextWithMemos(ctx, memos), req)
	}
}

// checkUnusedOptions returns an error for each option that has no effect on a resource with only admission handlers.
func (o *resourceOptions) checkUnusedOptions() (errs []error) {
	for _, option := range []struct {
		name string
		used bool
	}{
		{"WithConditions", len(o.conditionTypes) > 0},
		{"WithRootCondition", o.rootCondition != nil},
		{"WithPanicCondition", o.panicCondition != ""},
		{"WithControllerOptions", !reflect.ValueOf(o.controller).IsZero()},
		{"WithPredicates", len(o.predicates) > 0},
		{"WithResults", o.results != defaultResults},
		{"WithDigestOnly", o.digestOnly != nil},
		{"WatchOnly", o.selector != nil},
	} {
		if option.used {
			errs = append(errs, fmt.Errorf("%s has no effect on a resource that has only admission handlers: "+
				"add another handler, such as OnReconcile, or remove the option", option.name))
		}
	}
	return errs
}

var errNoHandlers = errors.New("the resource has no handlers: add one, such as OnCreate")
