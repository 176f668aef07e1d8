package kopf

import (
	"errors"
	"fmt"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

// Validate adds an admission handler: it is called before an object is written through the API server, and its error
// says no. It is served by the manager's webhook server on every replica, leader or not, paused or not; see
// [WithWebhooks] for what it needs besides. Its options are those of package webhooks, on which it stands; filters of views
// ([Resource.When]) and middleware ([Resource.Use]) are for other handlers.
//
// kopf: @kopf.on.validate.
func (r *Resource[T]) Validate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.admit("Validate", id, webhooks.Validating(r.obj, id, fn, opts...))
}

// Mutate adds an admission handler that may also change the object; see [Resource.Validate].
//
// kopf: @kopf.on.mutate.
func (r *Resource[T]) Mutate(id string, fn webhooks.Handler[T], opts ...webhooks.Option) *Resource[T] {
	return r.admit("Mutate", id, webhooks.Mutating(r.obj, id, fn, opts...))
}

func (r *Resource[T]) admit(method, id string, hook webhooks.Hook) *Resource[T] {
	if len(r.when) > 0 {
		r.mistakes = append(r.mistakes, fmt.Errorf("%s(%q): the When of a view cannot be told to the API server: "+
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
	return optionFunc(func(o *Operator) { o.webhooks = &options })
}

// admits sets the admission handlers up with the manager, whose webhook server is started before anything else. With
// WithWebhooks, also if there are none: then an earlier version's entries are removed.
func (o *Operator) admits() error {
	var hooks []webhooks.Hook
	for _, r := range o.resources {
		hooks = append(hooks, r.admission()...)
	}
	if o.mgr == nil || len(hooks) == 0 && o.webhooks == nil {
		return nil
	}
	var options webhooks.Options
	if o.webhooks != nil {
		options = *o.webhooks
	}
	if err := webhooks.New(o.mgr, options).Add(hooks...).SetupWithManager(); err != nil {
		return fmt.Errorf("the admission handlers: %w", err)
	}
	return nil
}

func (r *Resource[T]) admission() []webhooks.Hook {
	if isNil(r.obj) {
		return nil // that is told elsewhere
	}
	return r.hooks
}

// onlyAdmits reports whether a resource has admission handlers and no others: its objects are not watched.
func (r *Resource[T]) onlyAdmits() bool {
	return len(r.hooks) > 0 && len(r.handlers)+len(r.indexes) == 0
}

var errNoHandlers = errors.New("it has no handlers: add one, such as OnCreate")
