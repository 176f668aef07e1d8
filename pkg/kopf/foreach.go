package kopf

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// ForEachOwner returns a handler for children that calls a function for each owner of one kind. The argument owner only selects the kind
// and its Go type, so pass an empty object such as &appsv1.ReplicaSet{}. The function gets a copy of the owner from the cache, so the
// operator needs permission to list and watch the kind.
//
// In a cause handler, each call is a sub-handler with the id "<handler>/<uid of the owner>" (see [Request.Sub]), so each owner has its own
// retries and progress. The options apply to the sub-handlers. Other handlers, such as OnReconcile handlers, ignore the options and return
// the joined errors of all calls. If one of the errors isn't permanent, all calls are repeated.
//
// Owners that no longer exist are skipped. If the object has more than 200 owners of the kind, the handler fails permanently. A change to
// an owner doesn't trigger the handler; use [Resource.Watches] for that.
func ForEachOwner[T, P client.Object](owner P, fn func(ctx context.Context, req *Request[T], owner P) error, opts ...HandlerOption) Handler[T] {
	find := func(_ context.Context, req *Request[T], gvk schema.GroupVersionKind) (targets []target, err error) {
		// The owner of a namespaced object has the same namespace or none.
		namespace := req.Object.GetNamespace()
		if namespaced, err := req.Client.IsObjectNamespaced(owner); err != nil {
			return nil, fmt.Errorf("finding the scope of the owner: %w", err)
		} else if !namespaced {
			namespace = ""
		}
		seen := map[types.UID]bool{}
		for _, ref := range req.Object.GetOwnerReferences() {
			version, err := schema.ParseGroupVersion(ref.APIVersion)
			if err != nil || version.Group != gvk.Group || ref.Kind != gvk.Kind || seen[ref.UID] {
				continue
			}
			seen[ref.UID] = true
			targets = append(targets, target{string(ref.UID), client.ObjectKey{Namespace: namespace, Name: ref.Name}, ref.UID})
		}
		if len(targets) > maxTargets {
			return nil, Permanent(fmt.Errorf("ForEachOwner: the object has %d owners of the kind %s, but at most %d are allowed", len(targets), gvk.Kind, maxTargets))
		}
		return targets, nil
	}
	return forEach("ForEachOwner", owner, find, fn, opts)
}

// maxTargets limits the objects for one call of ForEachOwner or ForEachRelated, because users can create any number of owner references and
// objects, and each one can add a record to the object.
const maxTargets = 200

// ForEachRelated returns a handler that calls a function for each related object of another kind. For example, a handler of Secrets can
// handle a change for each Database that uses the Secret. With WithDigestOnly(false), it even gets the Secret's old state (see
// [WithDigestOnly]). mapFunc returns the related objects of the changed object; it can be the function that you pass to [Resource.Watches].
// The argument related only selects the kind and its Go type, so pass an empty object such as &Database{}. The function gets a copy of the
// related object from the cache, so it must use a client to change the object.
//
// In a cause handler, each call is a sub-handler with the id "<handler>/<namespace>.<name>", or "<handler>/<name>" for kinds without
// namespaces, so each related object has its own retries and progress. The progress and the old state are stored on the changed object,
// because a copy of a Secret on the related object might be readable for more users. The options, other handlers, and objects that no
// longer exist are treated as described for [ForEachOwner].
//
// If mapFunc panics or returns more than 200 objects, the handler fails permanently. To handle more objects, use an OnReconcile handler
// with [Resource.Watches] or [Request.Track].
func ForEachRelated[T, P client.Object](
	related P, mapFunc handler.MapFunc, fn func(ctx context.Context, req *Request[T], related P) error, opts ...HandlerOption,
) Handler[T] {
	if mapFunc == nil {
		return nil // the registration reports the nil handler
	}
	find := func(ctx context.Context, req *Request[T], _ schema.GroupVersionKind) (targets []target, err error) {
		requests, err := callMapFunc(ctx, mapFunc, req.Object)
		if err != nil {
			return nil, Permanent(fmt.Errorf("ForEachRelated: %w", err))
		}
		seen := map[types.NamespacedName]bool{}
		for _, request := range requests {
			if seen[request.NamespacedName] {
				continue
			}
			seen[request.NamespacedName] = true
			id := request.Name
			if request.Namespace != "" {
				id = request.Namespace + "." + id
			}
			targets = append(targets, target{subID(id), request.NamespacedName, ""})
		}
		if len(targets) > maxTargets {
			return nil, Permanent(fmt.Errorf("ForEachRelated: the map function has returned %d objects, but at most %d are allowed: use OnReconcile with Watches or Track",
				len(targets), maxTargets))
		}
		return targets, nil
	}
	return forEach("ForEachRelated", related, find, fn, opts)
}

// subID returns an id for a name. Names of some kinds, such as ClusterRole, can contain characters that aren't allowed in a record's key,
// so subID replaces them and adds a checksum.
func subID(name string) string {
	if validation.QualifiedName(name) == nil {
		return name
	}
	valid := strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '-') {
			return r
		}
		return '-'
	}, name)
	return fmt.Sprintf("%s-%08x", strings.Trim(valid, "-."), crc32.ChecksumIEEE([]byte(name)))
}

func callMapFunc(ctx context.Context, mapFunc handler.MapFunc, obj client.Object) (requests []reconcile.Request, err error) {
	err = guard.Catch("the map function", func() error { requests = mapFunc(ctx, obj.DeepCopyObject().(client.Object)); return nil })
	return requests, err
}

// A target is an object for which ForEachOwner or ForEachRelated calls its function.
type target struct {
	id  string // the id of the sub-handler, without the id of the handler
	key client.ObjectKey
	uid types.UID // if it is empty, the object may have any uid
}

// forEach returns a handler that calls fn for each object that find returns.
func forEach[T, P client.Object](
	name string, kind P, find func(context.Context, *Request[T], schema.GroupVersionKind) ([]target, error),
	fn func(context.Context, *Request[T], P) error, opts []HandlerOption,
) Handler[T] {
	if fn == nil {
		return nil // the registration reports the nil handler
	}
	return func(ctx context.Context, req *Request[T]) error {
		if isNil(kind) {
			return Permanent(fmt.Errorf("%s(nil): pass an empty object of the kind, such as &appsv1.ReplicaSet{}", name))
		}
		if req.Client == nil {
			return fmt.Errorf("%s: the request has no client to read the objects: set its Client", name)
		}
		gvk, err := apiutil.GVKForObject(kind, req.Client.Scheme())
		if err != nil {
			return Permanent(fmt.Errorf("%s(%T): the kind is not registered in the manager's scheme: "+
				"call AddToScheme of its API package, or set apiVersion and kind of an unstructured object: %w", name, kind, err))
		}
		targets, err := find(ctx, req, gvk)
		if err != nil {
			return err
		}
		var errs []error
		for _, target := range targets {
			call := func(ctx context.Context, req *Request[T]) error { return callFor(ctx, req, kind, target, fn) }
			if req.call != nil && req.Reason.isCause() {
				req.Sub(target.id, call, opts...)
				continue
			}
			if err := call(ctx, req); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", gvk.Kind, target.key, err))
			}
		}
		return joinRetryable(errs)
	}
}

// joinRetryable joins errors. If at least one of them isn't permanent, neither is the result, so that the handler is retried.
func joinRetryable(errs []error) error {
	isPermanent := func(err error) bool { _, ok := errors.AsType[*progress.PermanentError](err); return ok }
	if slices.ContainsFunc(errs, func(err error) bool { return !isPermanent(err) }) {
		for i, err := range errs {
			if isPermanent(err) {
				errs[i] = errors.New(err.Error())
			}
		}
	}
	return errors.Join(errs...)
}

// callFor reads the target and calls the function with it. If the target doesn't exist, it does nothing.
func callFor[T, P client.Object](ctx context.Context, req *Request[T], kind P, target target, fn func(context.Context, *Request[T], P) error) error {
	obj, ok := kind.DeepCopyObject().(P)
	if !ok {
		return Permanent(fmt.Errorf("DeepCopyObject of %T does not return a %[1]T", kind))
	}
	if err := req.Client.Get(ctx, target.key, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	if target.uid != "" && obj.GetUID() != target.uid {
		return nil // the object has been deleted, and a different one now has its name
	}
	return fn(ctx, req, obj)
}
