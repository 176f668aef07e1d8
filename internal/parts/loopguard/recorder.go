package loopguard

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
)

// maxReads limits how many states of the object are kept at a time; when it is reached, all of them are dropped.
const maxReads = 8

// Recorder is a handler's client for one attempt. It records the changes that the handler makes to its own object. It is safe for
// concurrent use if Client is.
type Recorder struct {
	client.Client
	GVK       schema.GroupVersionKind // of the object
	HasStatus bool                    // the kind has the status subresource
	Essence   essence.Builder
	Received  patch.Converted // the object as the handler received it, with the changes of earlier handlers

	mu      sync.Mutex
	read    map[string]map[string]any // what the handler has read or written, by resource version
	written Write
}

// Written returns the recorded writes, with Handler left empty.
func (r *Recorder) Written() Write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written
}

// isHandledObject reports whether an object is the one the handler is called for.
func (r *Recorder) isHandledObject(obj client.Object) bool {
	if obj.GetName() != r.Received.Object.GetName() || obj.GetNamespace() != r.Received.Object.GetNamespace() {
		return false
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk.GroupKind() == r.GVK.GroupKind()
	}
	return reflect.TypeOf(obj) == reflect.TypeOf(r.Received.Object)
}

// Get implements [client.Reader].
func (r *Recorder) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := r.Client.Get(ctx, key, obj, opts...)
	if err == nil && r.isHandledObject(obj) {
		r.keep(obj)
	}
	return err
}

// Update implements [client.Writer].
func (r *Recorder) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return r.update(obj, false, func() error { return r.Client.Update(ctx, obj, opts...) })
}

// Patch implements [client.Writer].
func (r *Recorder) Patch(ctx context.Context, obj client.Object, change client.Patch, opts ...client.PatchOption) error {
	return r.patch(obj, change, func() error { return r.Client.Patch(ctx, obj, change, opts...) })
}

// Apply implements [client.Writer].
func (r *Recorder) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	return r.apply(obj, func() error { return r.Client.Apply(ctx, obj, opts...) })
}

// Status implements [client.StatusClient].
func (r *Recorder) Status() client.SubResourceWriter { return r.SubResource("status") }

// SubResource implements [client.SubResourceClientConstructor].
func (r *Recorder) SubResource(name string) client.SubResourceClient {
	inner := r.Client.SubResource(name)
	if name != "status" {
		return inner
	}
	return &statusRecorder{inner, r}
}

type statusRecorder struct {
	client.SubResourceClient
	recorder *Recorder
}

func (s *statusRecorder) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.recorder.update(obj, true, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

func (s *statusRecorder) Patch(ctx context.Context, obj client.Object, change client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.recorder.patch(obj, change, func() error { return s.SubResourceClient.Patch(ctx, obj, change, opts...) })
}

func (s *statusRecorder) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	return s.recorder.apply(obj, func() error { return s.SubResourceClient.Apply(ctx, obj, opts...) })
}

// keep records a state from which the handler may update the object, and returns its JSON form.
func (r *Recorder) keep(obj client.Object) map[string]any {
	content, err := patch.Content(obj)
	if err != nil {
		return nil
	}
	content = runtime.DeepCopyJSON(content)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil || len(r.read) >= maxReads {
		r.read = map[string]map[string]any{}
	}
	r.read[obj.GetResourceVersion()] = content
	return content
}

// update records what differs between the state that the handler read and the one it writes.
func (r *Recorder) update(obj client.Object, status bool, send func() error) error {
	if !r.isHandledObject(obj) {
		return send()
	}
	sent, err := patch.JSONTypedContent(obj)
	r.mu.Lock()
	base, known := r.read[obj.GetResourceVersion()]
	r.mu.Unlock()
	if !known {
		base = r.Received.Content // the handler didn't read this state with Get, for example because it updates the object it received
	}
	if failed := send(); failed != nil {
		return failed
	}
	stored := r.keep(obj)
	if err != nil {
		return nil //nolint:nilerr // the write has succeeded
	}
	doc := patch.Diff(base, sent).WithoutServerFields()
	if status {
		doc = patch.MergePatch{"status": doc["status"]}
	} else if r.HasStatus {
		doc = doc.WithoutField("status") // the API server ignores the status in this request
	}
	r.add(base, stored, doc)
	return nil
}

func (r *Recorder) patch(obj client.Object, change client.Patch, send func() error) error {
	if !r.isHandledObject(obj) {
		return send()
	}
	data, err := change.Data(obj)
	if failed := send(); failed != nil {
		return failed
	}
	stored := r.keep(obj)
	var doc patch.MergePatch
	switch {
	case err != nil:
	case change.Type() == types.JSONPatchType:
		doc = fieldsOfJSONPatch(data, stored)
	default:
		_ = json.Unmarshal(data, &doc) // an invalid patch sets no fields
	}
	r.add(r.Received.Content, stored, doc.WithoutServerFields())
	return nil //nolint:nilerr // the write has succeeded
}

func (r *Recorder) apply(config runtime.ApplyConfiguration, send func() error) error {
	sent := contentOf(config)
	if !r.isHandledObject(&unstructured.Unstructured{Object: sent}) {
		return send()
	}
	if failed := send(); failed != nil {
		return failed
	}
	r.add(r.Received.Content, contentOf(config), patch.MergePatch(sent).WithoutServerFields())
	return nil
}

// contentOf returns an apply configuration in its JSON form, or nil if that fails.
func contentOf(config runtime.ApplyConfiguration) (content map[string]any) {
	data, err := json.Marshal(config)
	if err == nil {
		_ = json.Unmarshal(data, &content) // the content stays nil
	}
	return content
}

// fieldsOfJSONPatch returns the fields that a JSON patch changes, with their stored values. A list counts as one field.
func fieldsOfJSONPatch(data []byte, stored map[string]any) patch.MergePatch {
	var operations []struct{ Op, Path, From string }
	_ = json.Unmarshal(data, &operations) // an invalid patch has no operations
	doc := patch.MergePatch{}
	for _, operation := range operations {
		pointers := []string{operation.Path}
		switch operation.Op {
		case "test":
			continue
		case "move":
			pointers = append(pointers, operation.From)
		}
		for _, pointer := range pointers {
			doc = patch.Merge(doc, fieldAt(pointer, stored))
		}
	}
	return doc
}

// fieldAt returns the field at a JSON pointer with its stored value, as a patch.
func fieldAt(pointer string, stored map[string]any) patch.MergePatch {
	var path []string
	var value any = stored
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		fields, isMap := value.(map[string]any)
		if !isMap {
			break
		}
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		path, value = append(path, name), fields[name]
	}
	if len(path) == 0 {
		return nil
	}
	return patch.At(path, value)
}

// add records the changed fields and the resource version after the write.
func (r *Recorder) add(base, stored map[string]any, doc patch.MergePatch) {
	version, found, _ := unstructured.NestedString(stored, "metadata", "resourceVersion")
	if len(doc) == 0 || !found {
		return
	}
	write := NewWrite(r.Essence, base, stored, doc, version)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written = r.written.with(write)
}

var (
	_ client.Client            = (*Recorder)(nil)
	_ client.SubResourceClient = (*statusRecorder)(nil)
)
