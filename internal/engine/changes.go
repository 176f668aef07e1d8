package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// handlerChanges returns the changes that a handler has made in its copy of the object, and the state from which it has made them.
func (e *Engine) handlerChanges(ctx context.Context, r *reconciliation, id string, copied client.Object) (patch.MergePatch, map[string]any, error) {
	if reflect.DeepEqual(r.object, copied) {
		return nil, r.current, nil
	}
	if err := e.checkIdentity(r, copied); err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("handler %q: %w", id, err))
	}
	after, err := patch.Converted{Object: r.object, Content: r.current}.JSONTypedContentOf(copied)
	if err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("the handler has put something into the object that has no JSON form: %w", err))
	}
	base, err := e.baseOf(ctx, r, copied)
	if err != nil {
		return nil, nil, err
	}
	if base == nil { // it is not known what the handler has changed
		return nil, r.current, nil
	}
	return e.withoutFrameworkFields(patch.Diff(base, after).WithoutServerFields(), base), base, nil
}

// checkIdentity returns an error if a copy of the object has become another object. A client may have read a re-created object of the same name into the
// copy; it has another uid, and nothing is written to it.
func (e *Engine) checkIdentity(r *reconciliation, copied client.Object) error {
	if value := reflect.ValueOf(copied); value.Kind() == reflect.Pointer && value.IsNil() {
		return errors.New("req.Object must not be nil; leave it as it is, or change a copy")
	}
	apiVersion, kind := copied.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if apiVersion == "" && kind == "" { // typed clients drop them
		apiVersion, kind = e.GVK.ToAPIVersionAndKind()
	}
	uid := copied.GetUID()
	if uid != "" && copied.GetResourceVersion() != "" && copied.GetResourceVersion() != r.object.GetResourceVersion() {
		uid = r.object.GetUID()
	}
	for _, field := range []struct{ path, was, is string }{
		{"apiVersion", e.GVK.GroupVersion().String(), apiVersion},
		{"kind", e.GVK.Kind, kind},
		{"metadata.name", r.object.GetName(), copied.GetName()},
		{"metadata.namespace", r.object.GetNamespace(), copied.GetNamespace()},
		{"metadata.uid", string(r.object.GetUID()), string(uid)},
	} {
		if field.is != field.was {
			return fmt.Errorf("%s must not be changed from %q to %q; create another object with req.Client", field.path, field.was, field.is)
		}
	}
	return nil
}

// baseOf returns the state from which a handler has changed its copy: usually the one that it has received. If the handler has read or written
// the object with a client, the copy has another version, and the differences of that version are not its changes.
func (e *Engine) baseOf(ctx context.Context, r *reconciliation, copied client.Object) (map[string]any, error) {
	if copied.GetResourceVersion() == r.object.GetResourceVersion() {
		return r.current, nil
	}
	for _, source := range []client.Reader{e.Cache, e.APIReader} {
		obj, err := e.readObject(ctx, source, client.ObjectKeyFromObject(r.before))
		if err != nil {
			return nil, err
		}
		if obj != nil && obj.GetResourceVersion() == copied.GetResourceVersion() {
			return patch.Content(obj)
		}
	}
	log.FromContext(ctx).Info("Warning: the handler has read or written the object with a client, and another client has changed the object since: " +
		"what it has changed in its copy since is not known, and not written. Either change req.Object, or use a client")
	return nil, nil
}

// withoutFrameworkFields removes the fields of the framework from the changes of a handler. A handler that replaces all annotations or finalizers keeps
// those of the framework.
func (e *Engine) withoutFrameworkFields(doc patch.MergePatch, base map[string]any) patch.MergePatch {
	meta, ok := doc["metadata"].(map[string]any)
	if !ok {
		for _, cleaner := range e.detector.Essence.Cleaners {
			cleaner.Clear(doc)
		}
		return doc
	}
	doc, meta = maps.Clone(doc), maps.Clone(meta)
	doc["metadata"] = meta
	baseMeta, _ := base["metadata"].(map[string]any)
	if annotations, changed := meta["annotations"]; changed {
		each := map[string]any{}
		if annotations == nil {
			had, _ := baseMeta["annotations"].(map[string]any)
			for key := range had {
				each[key] = nil
			}
		} else if set, ok := annotations.(map[string]any); ok {
			maps.Copy(each, set)
		}
		meta["annotations"] = each
	}
	if finalizers, changed := meta["finalizers"]; changed {
		meta["finalizers"] = e.keepFinalizer(finalizers, baseMeta["finalizers"])
	}
	for _, cleaner := range e.detector.Essence.Cleaners {
		cleaner.Clear(doc)
	}
	return doc
}

// keepFinalizer returns the wanted finalizers, with our finalizer if the object had it.
func (e *Engine) keepFinalizer(wanted, had any) []any {
	list, _ := wanted.([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(f any) bool { return f == e.Finalizer })
	if before, _ := had.([]any); slices.Contains(before, any(e.Finalizer)) {
		list = append(list, e.Finalizer)
	}
	return list
}

// applyChanges applies the changes of a handler, for the handlers that follow.
func (e *Engine) applyChanges(r *reconciliation, changed patch.MergePatch) error {
	if len(changed) == 0 {
		return nil
	}
	current, object := changed.Apply(r.current), e.New()
	if err := patch.FromContent(current, object); err != nil {
		return progress.Permanent(fmt.Errorf("what the handler has made of the object does not fit its type: %w", err))
	}
	e.identify(object)
	r.current, r.object = current, object
	return nil
}

// patchAt returns a patch with values below a path of fields.
func patchAt(path []string, values map[string]any) patch.MergePatch {
	for _, field := range slices.Backward(path) {
		values = map[string]any{field: values}
	}
	return values
}
