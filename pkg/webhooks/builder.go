package webhooks

import (
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// A Builder declares the handlers of one kind and serves them: for operators that need no more. For hooks of
// several kinds, there is [Server].
type Builder[T client.Object] struct {
	mgr     manager.Manager
	obj     T
	options Options
	hooks   []Hook
}

// For begins with the kind of an object: a pointer to a Go type of the manager's scheme, or an unstructured
// or metadata-only object with its apiVersion and kind.
func For[T client.Object](mgr manager.Manager, obj T) *Builder[T] {
	return &Builder[T]{mgr: mgr, obj: obj}
}

// Validate adds a handler that says yes or no. See [Validating].
func (b *Builder[T]) Validate(id string, fn Handler[T], opts ...Option) *Builder[T] {
	b.hooks = append(b.hooks, Validating(b.obj, id, fn, opts...))
	return b
}

// Mutate adds a handler that may change the object. See [Mutating].
func (b *Builder[T]) Mutate(id string, fn Handler[T], opts ...Option) *Builder[T] {
	b.hooks = append(b.hooks, Mutating(b.obj, id, fn, opts...))
	return b
}

// WithOptions says how the handlers are served. Default: the zero [Options]. Unless it is given, the FieldOwner has
// the kind in it, so that the builders of several kinds may share the configurations.
func (b *Builder[T]) WithOptions(o Options) *Builder[T] {
	b.options = o
	return b
}

// Complete sets the handlers up with the manager, as [Server.SetupWithManager] does.
func (b *Builder[T]) Complete() error {
	if b.options.FieldOwner == "" && len(b.hooks) > 0 && b.hooks[0].obj != nil {
		if gvk, err := apiutil.GVKForObject(b.obj, b.mgr.GetScheme()); err == nil {
			b.options.FieldOwner = defaultOwner + "-" + strings.ToLower(gvk.GroupKind().String())
		}
	}
	return New(b.mgr, b.options).Add(b.hooks...).SetupWithManager()
}
