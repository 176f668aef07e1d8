package webhooks

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Builder declares the handlers of one kind and serves them. Use [Server] for hooks of several kinds.
type Builder[T client.Object] struct {
	mgr     manager.Manager
	obj     T
	options Options
	hooks   []Hook
}

// For returns a builder for the kind of obj. Pass a pointer to an empty object whose type is registered in the manager's scheme, or an
// unstructured or metadata-only object with apiVersion and kind.
func For[T client.Object](mgr manager.Manager, obj T) *Builder[T] {
	return &Builder[T]{mgr: mgr, obj: obj}
}

// Validate adds a handler that allows or denies requests. See [Validating].
func (b *Builder[T]) Validate(id string, fn Handler[T], opts ...Option) *Builder[T] {
	b.hooks = append(b.hooks, Validating(b.obj, id, fn, opts...))
	return b
}

// Mutate adds a handler that can also change the object. See [Mutating].
func (b *Builder[T]) Mutate(id string, fn Handler[T], opts ...Option) *Builder[T] {
	b.hooks = append(b.hooks, Mutating(b.obj, id, fn, opts...))
	return b
}

// WithOptions sets the options of the server. Default: the zero [Options]. A Builder adds the kind to the default FieldOwner, so that
// builders of several kinds can share the configurations.
func (b *Builder[T]) WithOptions(o Options) *Builder[T] {
	b.options = o
	return b
}

// Complete sets up the handlers with the manager. See [Server.SetupWithManager].
func (b *Builder[T]) Complete() error {
	if b.options.FieldOwner == "" && len(b.hooks) > 0 && b.hooks[0].obj != nil {
		if gvk, err := apiutil.GVKForObject(b.obj, b.mgr.GetScheme()); err == nil {
			b.options.FieldOwner = defaultFieldOwner + "-" + strings.ToLower(gvk.GroupKind().String())
		}
	}
	return New(b.mgr, b.options).Add(b.hooks...).SetupWithManager()
}
