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

// FlushableChanges returns the changes in the status since the attempt began or since the last flush. own are the changes relative to the state that the
// handler knows, and doc are the changes relative to the base of the draft.
func (c *Committer) FlushableChanges(ctx context.Context, d *Draft, id string, copied client.Object) (own, doc patch.MergePatch, err error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	status, ok := changed["status"]
	if !ok || err != nil {
		return nil, nil, err
	}
	own = patch.MergePatch{"status": status}
	return own, d.Rebased(own).Unapplied(d.Content()), nil
}

// TakeChanges returns the changes that a handler has made in its copy of the object, as a patch of the base. It also applies the changes, so that the
// following handlers see them.
func (c *Committer) TakeChanges(ctx context.Context, d *Draft, id string, copied client.Object) (patch.MergePatch, error) {
	changed, _, err := c.ChangesOf(ctx, d.current, id, copied)
	if err != nil {
		return nil, err
	}
	doc := d.Rebased(changed)
	return doc, d.Apply(changed)
}

// ChangesOf returns the changes that a handler has made in its copy of an object. It also returns the JSON form of the state on which the changes are based.
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
	if base == nil { // it is unknown which fields the handler has changed
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

// checkIdentity returns an error if a handler has changed the identity of its copy. A client may have read a re-created object of the same name into the
// copy. A different uid is then not an error, and nothing is written to the re-created object.
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

// baseOf returns the state on which the changes in the copy of a handler are based: usually the state that the handler has received. If the handler has read
// or written the object with a client, the copy is based on another version. baseOf returns nil if it cannot read that version.
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

// withoutFrameworkFields removes the fields of the framework from the changes of a handler. If a handler replaces all annotations or finalizers, the
// annotations and the finalizer of the framework remain. An annotation that the handler has set, and that looks like one of the framework, is logged.
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

// keepFinalizer returns the wanted finalizers, with our finalizer if the object had it.
func (c *Committer) keepFinalizer(wanted, had any) []any {
	list, _ := wanted.([]any)
	list = slices.DeleteFunc(slices.Clone(list), func(f any) bool { return f == c.Builder.Finalizer })
	if before, _ := had.([]any); slices.Contains(before, any(c.Builder.Finalizer)) {
		list = append(list, c.Builder.Finalizer)
	}
	return list
}
