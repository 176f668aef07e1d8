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
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// FlushableChanges returns the status changes since the attempt began or since its last flush. own is relative to the state that the
// handler knows, and doc to the draft's base.
func (c *Committer) FlushableChanges(ctx context.Context, d *Draft, id string, copied client.Object) (own, doc patch.MergePatch, err error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, d.Rebased(own).Unapplied(d.Content()), nil
}

// TakeChanges returns the changes that a handler has made in its copy of the object, as a patch of the base. It also applies them to the
// draft, so that the handlers that follow see them.
func (c *Committer) TakeChanges(ctx context.Context, d *Draft, id string, copied client.Object) (patch.MergePatch, error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	if err != nil {
		return nil, err
	}
	doc := d.Rebased(changed)
	return doc, d.Apply(changed)
}

// ChangesOf returns the changes that a handler has made in its copy of an object, and the JSON form of the state they are based on.
func (c *Committer) ChangesOf(ctx context.Context, received patch.Converted, id string, copied client.Object) (patch.MergePatch, map[string]any, error) {
	if err := c.checkIdentity(received.Object, copied); err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("handler %q: %w", id, err))
	}
	after, err := received.JSONTypedContentOf(copied)
	if err != nil {
		return nil, nil, progress.Permanent(fmt.Errorf("the handler has set a value in the object that cannot be encoded as JSON: %w", err))
	}
	base, err := c.baseOf(ctx, received, copied)
	if err != nil {
		return nil, nil, err
	}
	if base == nil { // we can't know which fields the handler has changed
		return nil, received.Content, nil
	}
	doc := patch.Diff(base, after).WithoutServerFields()
	if meta, ok := doc["metadata"].(map[string]any); ok { // the API server stores no null there
		before, _ := base["metadata"].(map[string]any)
		doc = doc.WithoutField("metadata")
		if meta = patch.MergePatch(meta).WithoutNulls(before); len(meta) > 0 {
			doc = patch.Merge(doc, patch.MergePatch{"metadata": meta})
		}
	}
	return c.withoutFrameworkFields(ctx, id, doc, base), base, nil
}

// checkIdentity returns an error if a handler has changed the identity of its copy. If a client has read a re-created object of the same
// name into the copy, a different uid is not an error, and nothing is written to the new object.
func (c *Committer) checkIdentity(obj, copied client.Object) error {
	if value := reflect.ValueOf(copied); value.Kind() == reflect.Pointer && value.IsNil() {
		return errors.New("req.Object must not be nil; leave it as it is, or change a copy")
	}
	gvk := copied.GetObjectKind().GroupVersionKind()
	if gvk.Empty() { // typed clients drop it
		gvk = c.Writer.GVK
	}
	uid := copied.GetUID()
	if uid != "" && copied.GetResourceVersion() != "" && copied.GetResourceVersion() != obj.GetResourceVersion() {
		uid = obj.GetUID()
	}
	if is, was := gvk.GroupVersion(), c.Writer.GVK.GroupVersion(); is != was {
		return identityError("apiVersion", was.String(), is.String())
	}
	for _, field := range []struct{ path, was, is string }{
		{"kind", c.Writer.GVK.Kind, gvk.Kind},
		{"metadata.name", obj.GetName(), copied.GetName()},
		{"metadata.namespace", obj.GetNamespace(), copied.GetNamespace()},
		{"metadata.uid", string(obj.GetUID()), string(uid)},
	} {
		if field.is != field.was {
			return identityError(field.path, field.was, field.is)
		}
	}
	return nil
}

func identityError(path, was, is string) error {
	return fmt.Errorf("%s must not be changed from %q to %q; create another object with req.Client", path, was, is)
}

// baseOf returns the state that the changes in a handler's copy are based on. Usually the handler has received this state. But if it has
// read or written the object with a client, the copy is based on a different version. baseOf returns nil if it cannot read that version.
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
	log.FromContext(ctx).Info("The handler has read or written the object with a client, and another client has changed the object since: " +
		"the changes of req.Object are not known, so they are not written. Change either req.Object, or the object with a client")
	return nil, nil
}

// withoutFrameworkFields removes the framework's fields from a handler's changes. If the handler replaces all annotations or finalizers,
// the framework's own stay. Annotations that the handler has set but that look like the framework's aren't written, so they are logged.
func (c *Committer) withoutFrameworkFields(ctx context.Context, handler string, doc patch.MergePatch, base map[string]any) patch.MergePatch {
	meta, ok := doc["metadata"].(map[string]any)
	if !ok {
		c.Builder.clear(doc)
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
	wanted, _ := meta["annotations"].(map[string]any)
	wanted = maps.Clone(wanted)
	c.Builder.clear(doc)
	written, _ := diff.Lookup(map[string]any(doc), "metadata", "annotations")
	left, _ := written.(map[string]any)
	for key, value := range wanted {
		if _, isWritten := left[key]; !isWritten && value != nil && c.loggedDrops.isNew(handler, key) {
			log.FromContext(ctx).Info("The handler has set an annotation with the prefix of the operator's own annotations; it is not written",
				"handler", handler, "annotation", key, "remedy", "use another prefix, or write the annotation with req.Client")
		}
	}
	return doc
}

// keepFinalizer returns the wanted finalizers, plus ours if the object had it.
func (c *Committer) keepFinalizer(wanted, had any) []any {
	list, _ := wanted.([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(f any) bool { return f == c.Builder.Finalizer })
	if before, _ := had.([]any); slices.Contains(before, any(c.Builder.Finalizer)) {
		list = append(list, c.Builder.Finalizer)
	}
	return list
}
