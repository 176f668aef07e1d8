package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// take performs a step.
func (w *world) take(ctx context.Context, step Step) error {
	if step.Action.concernsOperator() {
		return w.restart(ctx, step.Action, step.Down)
	}
	obj, err := w.read(ctx, step.Object)
	switch {
	case err != nil:
		return err
	case obj == nil:
		return w.create(ctx, step.Object)
	case step.Action == Delete:
		return w.delete(ctx, obj)
	default:
		return w.edit(ctx, step, obj)
	}
}

// read returns nil if the object does not exist.
func (w *world) read(ctx context.Context, object int) (*unstructured.Unstructured, error) {
	obj := w.empty(object)
	err := w.users.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

func (w *world) empty(object int) *unstructured.Unstructured {
	obj := kopf.Unstructured(w.plan.Kind.GVK)
	obj.SetNamespace(w.Namespace)
	obj.SetName(nameOf(object))
	return obj
}

func (w *world) create(ctx context.Context, object int) error {
	obj := w.empty(object)
	w.edits++
	obj.Object["spec"] = map[string]any{"size": int64(w.edits), "color": "red"}
	if err := w.users.Create(ctx, obj); err != nil {
		return fmt.Errorf("creating an object: %w", err)
	}
	w.recordEdit(obj)
	return nil
}

func (w *world) delete(ctx context.Context, obj *unstructured.Unstructured) error {
	w.logf("users: delete %s", obj.GetName())
	if err := w.users.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting an object: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed[obj.GetUID()] = len(obj.GetFinalizers()) == 0
	return nil
}

// edit patches the object. If another client has changed the tags concurrently, it repeats the edit.
func (w *world) edit(ctx context.Context, step Step, obj *unstructured.Unstructured) error {
	for range 100 {
		patch, err := json.Marshal(w.patch(step.Action, obj))
		if err != nil {
			return err
		}
		to := client.RawPatch(types.MergePatchType, patch)
		if step.Action == SetStatus && w.plan.Kind.GVK.Kind == "Widget" {
			err = w.users.Status().Patch(ctx, obj, to)
		} else {
			err = w.users.Patch(ctx, obj, to)
		}
		switch {
		case err == nil:
			w.recordEdit(obj)
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return fmt.Errorf("editing an object: %w", err)
		}
		if obj, err = w.read(ctx, step.Object); obj == nil || err != nil {
			return err
		}
	}
	return fmt.Errorf("too many conflicts for %s", obj.GetName())
}

// patch returns the patch of a user's edit. Only reverts use an earlier value again.
func (w *world) patch(action Action, obj *unstructured.Unstructured) map[string]any {
	w.edits++
	n := strconv.Itoa(w.edits)
	spec, labels, annotations := map[string]any{}, map[string]any{}, map[string]any{}
	meta := map[string]any{"labels": labels, "annotations": annotations}
	switch action {
	case SetSize:
		spec["size"] = w.edits
	case SetColor:
		spec["color"] = "color-" + n
	case SetTier:
		labels[tierLabel] = "tier-" + n
	case DropTier:
		labels[tierLabel] = nil
	case SetNote:
		annotations[noteKey] = "note-" + n
	case SetTwo:
		spec["size"], labels[tierLabel] = w.edits, "tier-"+n
	case SetStatus:
		return map[string]any{"status": map[string]any{"seen": "status-" + n}}
	case AddTag:
		tags, _, _ := unstructured.NestedStringSlice(obj.Object, "spec", "tags")
		spec["tags"] = append(tags, tagPrefix+n)
		meta["resourceVersion"] = obj.GetResourceVersion()
	case Ask:
		annotations[w.requestKey(&w.plan.Handlers[w.edits%len(w.plan.Handlers)])] = n
	case Withdraw:
		annotations[w.requestKey(&w.plan.Handlers[w.edits%len(w.plan.Handlers)])] = nil
	case TakeBack:
		before := w.before(obj)
		spec["size"], spec["color"] = before.Size, before.Color
		labels[tierLabel], annotations[noteKey] = orNull(before.Tier), orNull(before.Note)
	default:
		panic("scenario: unknown edit: " + string(action))
	}
	return map[string]any{"spec": spec, "metadata": meta}
}

// An ask is a request for a call of a handler. Each has another text.
type ask struct {
	uid           types.UID
	handler, text string
}

// requestKey returns the annotation that asks for a call of a handler.
func (w *world) requestKey(h *Handler) string { return retry.RequestKey(progress.DefaultPrefix, h.ID) }

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// before returns the state of an object before its last change.
func (w *world) before(obj client.Object) State {
	w.mu.Lock()
	defer w.mu.Unlock()
	states := w.historyOf(obj.GetUID()).states
	return states[max(0, len(states)-2)]
}

// recordEdit records the change of an object by a user.
func (w *world) recordEdit(obj *unstructured.Unstructured) {
	version, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	w.mu.Lock()
	defer w.mu.Unlock()
	h, state := w.historyOf(obj.GetUID()), stateOf(obj.Object)
	h.name = obj.GetName()
	w.notef("users: %s is %s in version %d", h.name, state, version)
	if n := len(h.states); n == 0 || h.states[n-1] != state {
		h.states, h.versions = append(h.states, state), append(h.versions, version)
	}
}
