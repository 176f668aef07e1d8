package engine

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/cause"
	"github.com/kopf-runtime/kopf-runtime/internal/patch"
	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
)

// maxReads limits the recorded states of the object in one attempt of a handler.
const maxReads = 8

// loopLength is the number of successive updates by a handler itself that are reported.
const loopLength = 3

// clientWrites records which handlers write their object with the client of the request, to find handlers that cause their own updates.
type clientWrites struct {
	last   map[string]patch.MergePatch // by handler, in the previous cycle
	now    map[string]patch.MergePatch // by handler, in this cycle
	loops  map[string]int              // successive updates that the handler has caused itself
	logged map[string]bool
}

// noteClientWrites records what a handler has written with its client.
func (r *reconciliation) noteClientWrites(id string, doc patch.MergePatch) {
	known := r.known.Worker.ClientWrites
	if known == nil {
		if len(doc) == 0 {
			return
		}
		known = &clientWrites{logged: map[string]bool{}}
		r.known.Worker.ClientWrites = known
	}
	if len(doc) > 0 {
		if known.now == nil {
			known.now = map[string]patch.MergePatch{}
		}
		known.now[id] = patch.Merge(known.now[id], doc)
	}
}

// reportLoops logs, once for each object and handler, that a handler alone has caused several successive updates: each update changed only
// fields that the handler had set with its client in the cycle before, to the same values.
func (e *Engine) reportLoops(ctx context.Context, r *reconciliation) {
	known := r.known.Worker.ClientWrites
	if known == nil {
		return
	}
	loops, all := map[string]int{}, patch.Merge(slices.Collect(maps.Values(known.last))...)
	if r.Cause.Reason == cause.Update && isSetBy(all, r.Cause.Diff) {
		for id, doc := range known.last {
			fields := fieldsSetBy(doc, r.Cause.Diff)
			if len(fields) == 0 || len(known.now[id]) == 0 {
				continue
			}
			if loops[id] = known.loops[id] + 1; loops[id] >= loopLength && !known.logged[id] {
				known.logged[id] = true
				log.FromContext(ctx).Info("Warning: the handler has called itself several times: it changes the object with a client, and each change is an update. "+
					"Change req.Object instead, which is no update, or let the handler react to other fields only", "handler", id, "fields", fields, "updates", loops[id])
			}
		}
	}
	known.loops, known.last, known.now = loops, known.now, nil
}

// isSetBy reports whether a patch sets all fields that have changed.
func isSetBy(doc patch.MergePatch, changes diff.Diff) bool {
	return len(changes) > 0 && len(fieldsSetBy(doc, changes)) == len(changes)
}

// fieldsSetBy returns the changed fields that a patch sets to their new values.
func fieldsSetBy(doc patch.MergePatch, changes diff.Diff) (fields []string) {
	for _, item := range changes {
		if value, ok := diff.Lookup(map[string]any(doc), item.Path...); ok && item.New != nil && diff.Equal(value, item.New) {
			fields = append(fields, item.Path.String())
		}
	}
	return fields
}

// writeRecorder is the client of one attempt of a handler. It records the changes of the handler's own object.
type writeRecorder struct {
	client.Client
	engine   *Engine
	received patch.Converted // the object of the attempt, with the changes of earlier handlers

	mu   sync.Mutex
	read map[string]map[string]any // the states that the handler has read, by resource version
	doc  patch.MergePatch
}

// recording returns the function that wraps the client of an attempt. The function sets the recorder.
func (e *Engine) recording(r *reconciliation, recorder **writeRecorder) func(client.Client) client.Client {
	return func(inner client.Client) client.Client {
		*recorder = &writeRecorder{Client: inner, engine: e, received: r.Current()}
		return *recorder
	}
}

// written returns what the handler has written. A nil recorder has recorded nothing.
func (r *writeRecorder) written() patch.MergePatch {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.doc
}

// isHandledObject reports whether an object is the one for which the handler is called.
func (r *writeRecorder) isHandledObject(obj client.Object) bool {
	if obj.GetName() != r.received.Object.GetName() || obj.GetNamespace() != r.received.Object.GetNamespace() {
		return false
	}
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk.GroupKind() == r.engine.GVK.GroupKind()
	}
	return reflect.TypeOf(obj) == reflect.TypeOf(r.engine.New())
}

func (r *writeRecorder) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := r.Client.Get(ctx, key, obj, opts...)
	if err == nil && r.isHandledObject(obj) {
		r.keep(obj)
	}
	return err
}

func (r *writeRecorder) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return r.update(obj, false, func() error { return r.Client.Update(ctx, obj, opts...) })
}

func (r *writeRecorder) Patch(ctx context.Context, obj client.Object, change client.Patch, opts ...client.PatchOption) error {
	return r.patch(obj, change, func() error { return r.Client.Patch(ctx, obj, change, opts...) })
}

func (r *writeRecorder) Status() client.SubResourceWriter { return r.SubResource("status") }

func (r *writeRecorder) SubResource(name string) client.SubResourceClient {
	inner := r.Client.SubResource(name)
	if name != "status" {
		return inner
	}
	return &statusRecorder{inner, r}
}

type statusRecorder struct {
	client.SubResourceClient
	recorder *writeRecorder
}

func (s *statusRecorder) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.recorder.update(obj, true, func() error { return s.SubResourceClient.Update(ctx, obj, opts...) })
}

func (s *statusRecorder) Patch(ctx context.Context, obj client.Object, change client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.recorder.patch(obj, change, func() error { return s.SubResourceClient.Patch(ctx, obj, change, opts...) })
}

// keep records a state from which the handler may update the object.
func (r *writeRecorder) keep(obj client.Object) {
	content, err := patch.Content(obj)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.read == nil || len(r.read) >= maxReads {
		r.read = map[string]map[string]any{}
	}
	r.read[obj.GetResourceVersion()] = runtime.DeepCopyJSON(content)
}

// stateOf returns the state of a version that the handler has received or read; nil if it is unknown.
func (r *writeRecorder) stateOf(version string) map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version == r.received.Object.GetResourceVersion() {
		return r.received.Content
	}
	return r.read[version]
}

// update records the difference between the state that the handler has read and the one that it writes.
func (r *writeRecorder) update(obj client.Object, status bool, send func() error) error {
	if !r.isHandledObject(obj) {
		return send()
	}
	sent, err := patch.JSONTypedContent(obj)
	base := r.stateOf(obj.GetResourceVersion())
	if failed := send(); failed != nil {
		return failed
	}
	r.keep(obj)
	if err == nil && base != nil {
		doc := patch.Diff(base, sent).WithoutServerFields()
		if status {
			doc = patch.MergePatch{"status": doc["status"]}
		}
		r.add(doc)
	}
	return nil
}

// patch records what a patch sets. JSON patches are not read.
func (r *writeRecorder) patch(obj client.Object, change client.Patch, send func() error) error {
	if !r.isHandledObject(obj) || change.Type() == types.JSONPatchType {
		return send()
	}
	var doc patch.MergePatch
	data, err := change.Data(obj)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if failed := send(); failed != nil {
		return failed
	}
	r.keep(obj)
	if err == nil {
		r.add(doc.WithoutServerFields())
	}
	return nil
}

func (r *writeRecorder) add(doc patch.MergePatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doc = patch.Merge(r.doc, doc)
}

var (
	_ client.Client            = (*writeRecorder)(nil)
	_ client.SubResourceClient = (*statusRecorder)(nil)
)
