package decoding

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pageSize is how many objects [Each] lists per request.
const pageSize = 500

// Each lists a kind's objects without their Go type, and calls visit for each of them, either with the decoded object or with its identity
// and fault. reader must read from the API server. Each calls proceed before each page, and returns when proceed returns false.
func Each(
	ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, newObject func() any, proceed func() bool, visit func(decoded any, faulty *Object), opts ...client.ListOption,
) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	for proceed() {
		if err := reader.List(ctx, list, append(opts, client.Limit(pageSize), client.Continue(list.GetContinue()))...); err != nil {
			return fmt.Errorf("listing the %s objects without their Go type: %w", gvk.Kind, err)
		}
		for i := range list.Items {
			obj := &list.Items[i]
			data, err := obj.MarshalJSON()
			if err != nil {
				return fmt.Errorf("encoding %s %s: %w", gvk.Kind, client.ObjectKeyFromObject(obj), err)
			}
			decoded, fault := check(data, newObject)
			if fault == nil {
				visit(decoded, nil)
				continue
			}
			visit(nil, &Object{GVK: gvk, Key: client.ObjectKeyFromObject(obj), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(), Fault: fault})
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
	return nil
}

// Find returns the objects of a kind that don't decode. Its parameters are those of [Each].
func Find(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, newObject func() any, proceed func() bool, opts ...client.ListOption) (found []Object, err error) {
	err = Each(ctx, reader, gvk, newObject, proceed, func(_ any, faulty *Object) {
		if faulty != nil {
			found = append(found, *faulty)
		}
	}, opts...)
	return found, err
}
