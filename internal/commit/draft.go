package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Draft is an object with the changes of handlers that are not written yet. It never changes the objects and JSON forms that it receives or returns.
type Draft struct {
	newObject func() client.Object
	// overlay returns the JSON form of an object with the progress that is not stored on it, and without that of another object; nil if there is neither. It
	// is optional.
	overlay func(stored patch.Converted) (map[string]any, error)

	stored   patch.Converted // the object as the API server has it
	base     patch.Converted // stored, with the overlay
	current  patch.Converted // base, with the changes of handlers
	isBehind bool            // base was written while a handler was running, and current is based on an earlier state
	patches  []*HandlerPatch
}

// HandlerPatch contains one attempt of a handler, and its changes.
type HandlerPatch struct {
	ID      string
	Policy  progress.Policy
	Before  progress.Record // the record before the attempt
	Outcome progress.Outcome
	// Patch contains the changes and the result.
	Patch patch.MergePatch
	// Untyped is true if Patch may have fields that the Go type lacks, such as a result.
	Untyped bool
	// Base is the JSON form of the object that the handler has received.
	Base map[string]any
	// Report is true if Patch contains the conditions that report handlers.
	Report bool
	// Open is true until the attempt and the calls of its sub-handlers have ended. Until then, the outcome is unknown.
	Open bool
	// Rejection is the error with which the API server rejected Patch while Open was true.
	Rejection error
	// Repeat makes a handler without a record on the object due again, because Patch is not written. It is optional.
	Repeat func()
	// Fail records the outcome of a handler without a record on the object, after the API server has rejected Patch. It is optional.
	Fail func()

	singleRequest *patch.Change    // the request with this patch alone; nil if there is none
	written       patch.MergePatch // the part that was written before Patch, or before its rejection
}

// RejectedOutcome returns the outcome of an attempt whose patch was rejected while its sub-handlers were being called.
func (p *HandlerPatch) RejectedOutcome(at time.Time) progress.Outcome {
	if isContested(p.Rejection) {
		return progress.Outcome{Waiting: true} // the attempt does not count
	}
	return p.Policy.Outcome(p.Before, at, p.Rejection)
}

// NewDraft returns a draft of an object. newObject returns an empty object of its kind.
func NewDraft(newObject func() client.Object, obj client.Object) (*Draft, error) {
	d := &Draft{newObject: newObject}
	return d, d.SetBase(obj)
}

// Base returns the object without the pending changes.
func (d *Draft) Base() client.Object { return d.base.Object }

// Content returns the JSON form of [Draft.Base].
func (d *Draft) Content() map[string]any { return d.base.Content }

// Current returns the object with the pending changes, as handlers receive it, and its JSON form.
func (d *Draft) Current() patch.Converted { return d.current }

// Stored returns the object as the API server has it, without progress that is kept elsewhere, and its JSON form.
func (d *Draft) Stored() patch.Converted { return d.stored }

// Patches returns the pending changes of handlers, in order.
func (d *Draft) Patches() []*HandlerPatch { return d.patches }

// HasChanges reports whether changes of handlers are pending.
func (d *Draft) HasChanges() bool { return len(d.patches) > 0 }

// SetBase bases the draft on a state of the object. The handlers that follow do not see pending changes.
func (d *Draft) SetBase(obj client.Object) error {
	if obj == d.base.Object {
		obj = d.stored.Object // the overlay may have changed
	}
	content, err := d.stored.ContentOf(obj)
	if err != nil {
		return fmt.Errorf("the object has no JSON form: %w", err)
	}
	return d.setStored(patch.Converted{Object: obj, Content: content})
}

func (d *Draft) setStored(stored patch.Converted) error {
	d.stored = stored
	if err := d.applyOverlay(); err != nil {
		return err
	}
	d.current, d.isBehind = d.base, false
	return nil
}

// applyOverlay computes the base from the stored object and the overlay.
func (d *Draft) applyOverlay() error {
	d.base = d.stored
	if d.overlay == nil {
		return nil
	}
	content, err := d.overlay(d.stored)
	if content == nil || err != nil {
		return err
	}
	obj := d.newObject()
	if err := patch.FromContent(content, obj); err != nil {
		return fmt.Errorf("the progress that is not stored on the object does not fit its type: %w", err)
	}
	d.setKind(obj)
	d.base = patch.Converted{Object: obj, Content: content}
	return nil
}

// ContinueFrom bases the pending changes on a newer state of the object, which was written while a handler was running.
func (d *Draft) ContinueFrom(written client.Object) error {
	content, err := d.stored.ContentOf(written)
	if err != nil {
		return err
	}
	before := d.base.Content
	d.stored = patch.Converted{Object: written, Content: content}
	if err := d.applyOverlay(); err != nil {
		return err
	}
	for _, p := range d.patches {
		p.Patch = p.Patch.Rebase(before, d.base.Content)
	}
	d.isBehind = true
	return nil
}

// advance bases the pending changes on a newer state of the object. Unlike after [Draft.ContinueFrom], the handlers that follow receive this state.
func (d *Draft) advance(stored patch.Converted) error {
	before := d.base.Content
	if err := d.setStored(stored); err != nil {
		return err
	}
	for _, p := range d.patches {
		p.Patch = p.Patch.Rebase(before, d.base.Content)
		if err := d.Apply(p.Patch); err != nil {
			return err
		}
	}
	return nil
}

// Rebased converts changes of the current state, which handlers have received, to changes of the base with the pending changes.
func (d *Draft) Rebased(doc patch.MergePatch) patch.MergePatch {
	if !d.isBehind {
		return doc
	}
	written := d.base.Content
	for _, p := range d.patches { // earlier handlers have changed the object, too
		written = p.Patch.Apply(written)
	}
	return doc.Rebase(d.current.Content, written)
}

// Apply applies changes to the current state, which the following handlers receive.
func (d *Draft) Apply(changed patch.MergePatch) error {
	if len(changed) == 0 {
		return nil
	}
	content := changed.Apply(d.current.Content)
	obj := d.newObject()
	if err := d.current.Decode(content, changed, obj); err != nil {
		return progress.Permanent(fmt.Errorf("the changes of the handler do not fit the type of the object: %w", err))
	}
	d.setKind(obj)
	d.current = patch.Converted{Object: obj, Content: content}
	return nil
}

// setKind sets the apiVersion and the kind, which typed objects may lack.
func (d *Draft) setKind(obj client.Object) {
	if kind := d.stored.Object.GetObjectKind().GroupVersionKind(); obj.GetObjectKind().GroupVersionKind() != kind {
		obj.GetObjectKind().SetGroupVersionKind(kind)
	}
}

// Add adds the patch of a handler, unless the patch is empty.
func (d *Draft) Add(p *HandlerPatch) {
	if len(p.Patch) > 0 {
		d.patches = append(d.patches, p)
	}
}

// AddTo adds changes to the patch of a handler. If the draft does not contain the patch, AddTo adds it and replaces its changes.
func (d *Draft) AddTo(p *HandlerPatch, doc patch.MergePatch) {
	if slices.Contains(d.patches, p) {
		p.Patch = patch.Merge(p.Patch, doc)
		return
	}
	p.Patch = doc
	d.Add(p)
}

// dropSuperseded removes fields from the pending changes of earlier handlers, after a handler has written newer values of these fields.
func (d *Draft) dropSuperseded(newer patch.MergePatch) {
	for _, p := range d.patches {
		p.Patch = p.Patch.WithoutOverwritten(newer, d.base.Content)
	}
	d.dropEmptyPatches()
}

func (d *Draft) dropEmptyPatches() {
	d.patches = slices.DeleteFunc(d.patches, func(p *HandlerPatch) bool { return len(p.Patch) == 0 })
}

// dropReports removes the conditions that report handlers from the pending changes. The next write computes them again.
func (d *Draft) dropReports() {
	d.patches = slices.DeleteFunc(d.patches, func(p *HandlerPatch) bool { return p.Report })
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
	wanted, _ := meta["annotations"].(map[string]any)
	wanted = maps.Clone(wanted)
	c.clear(doc)
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

// clear removes the framework's part from a JSON form.
func (b *Builder) clear(content map[string]any) {
	for _, cleaner := range b.Detector.Essence.Cleaners {
		progress.ClearStored(cleaner, content)
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
