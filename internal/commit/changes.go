package commit

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

// TakeChanges returns the changes that a handler has made in its copy of the object as a patch of the base, and applies them for the handlers that follow.
func (c *Committer) TakeChanges(ctx context.Context, d *Draft, id string, copied client.Object) (patch.MergePatch, error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	if err != nil {
		return nil, err
	}
	doc := d.Rebased(changed)
	return doc, d.Apply(changed)
}

// ChangesOf returns the changes that a handler has made in its copy of an object, and the JSON form of the state from which it has made them.
func (c *Committer) ChangesOf(ctx context.Context, received patch.Converted, id string, copied client.Object) (patch.MergePatch, map[string]any, error) {
	if reflect.DeepEqual(received.Object, copied) {
		return nil, received.Content, nil
	}
	if err := c.checkIdentity(received.Object, copied); err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("handler %q: %w", id, err))
	}
	after, err := received.JSONTypedContentOf(copied)
	if err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("the handler has put something into the object that has no JSON form: %w", err))
	}
	base, err := c.baseOf(ctx, received, copied)
	if err != nil {
		return nil, nil, err
	}
	if base == nil { // it is not known which fields the handler has changed
		return nil, received.Content, nil
	}
	return c.withoutFrameworkFields(patch.Diff(base, after).WithoutServerFields(), base), base, nil
}

// checkIdentity returns an error if a copy of the object has become another object. A client may have read a re-created object of the same name into the
// copy; it has another uid, and nothing is written to it.
func (c *Committer) checkIdentity(obj, copied client.Object) error {
	if value := reflect.ValueOf(copied); value.Kind() == reflect.Pointer && value.IsNil() {
		return errors.New("req.Object must not be nil; leave it as it is, or change a copy")
	}
	apiVersion, kind := copied.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if apiVersion == "" && kind == "" { // typed clients drop them
		apiVersion, kind = c.Writer.GVK.ToAPIVersionAndKind()
	}
	uid := copied.GetUID()
	if uid != "" && copied.GetResourceVersion() != "" && copied.GetResourceVersion() != obj.GetResourceVersion() {
		uid = obj.GetUID()
	}
	for _, field := range []struct{ path, was, is string }{
		{"apiVersion", c.Writer.GVK.GroupVersion().String(), apiVersion},
		{"kind", c.Writer.GVK.Kind, kind},
		{"metadata.name", obj.GetName(), copied.GetName()},
		{"metadata.namespace", obj.GetNamespace(), copied.GetNamespace()},
		{"metadata.uid", string(obj.GetUID()), string(uid)},
	} {
		if field.is != field.was {
			return fmt.Errorf("%s must not be changed from %q to %q; create another object with req.Client", field.path, field.was, field.is)
		}
	}
	return nil
}

// baseOf returns the state from which a handler has changed its copy: usually the one that it has received. If the handler has read or written
// the object with a client, the copy has another version, and the differences of that version are not its changes.
func (c *Committer) baseOf(ctx context.Context, received patch.Converted, copied client.Object) (map[string]any, error) {
	if copied.GetResourceVersion() == received.Object.GetResourceVersion() {
		return received.Content, nil
	}
	for _, read := range []func(context.Context, client.ObjectKey) (client.Object, error){c.ReadCached, c.ReadLive} {
		obj, err := read(ctx, client.ObjectKeyFromObject(received.Object))
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
func (c *Committer) withoutFrameworkFields(doc patch.MergePatch, base map[string]any) patch.MergePatch {
	meta, ok := doc["metadata"].(map[string]any)
	if !ok {
		c.clear(doc)
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
		meta["finalizers"] = c.keepFinalizer(finalizers, baseMeta["finalizers"])
	}
	c.clear(doc)
	return doc
}

// clear removes the framework's part from a JSON form.
func (c *Committer) clear(content map[string]any) {
	for _, cleaner := range c.Detector.Essence.Cleaners {
		cleaner.Clear(content)
	}
}

// keepFinalizer returns the wanted finalizers, with our finalizer if the object had it.
func (c *Committer) keepFinalizer(wanted, had any) []any {
	list, _ := wanted.([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(f any) bool { return f == c.Finalizer })
	if before, _ := had.([]any); slices.Contains(before, any(c.Finalizer)) {
		list = append(list, c.Finalizer)
	}
	return list
}

// PatchAt returns a patch with values below a path of fields.
func PatchAt(path []string, values map[string]any) patch.MergePatch {
	for _, field := range slices.Backward(path) {
		values = map[string]any{field: values}
	}
	return values
}
