package main

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// release removes the state of an operator from objects.
type release struct {
	storage
	yes             bool // whether to write the changes
	keepAnnotations bool
	extrasOnly      bool // whether to remove only the annotations that kopf in Python does not know
}

// A change describes what "objects release" removes from one object. It is planned until Written is set.
type change struct {
	Namespace   string   `json:"namespace,omitempty"`
	Name        string   `json:"name"`
	Finalizer   bool     `json:"finalizer"` // whether the change removes the finalizer
	Annotations []string `json:"annotations,omitempty"`
	Deletes     bool     `json:"deletes"` // whether the object is under deletion and has no other finalizer
	Written     bool     `json:"written"`
	Error       string   `json:"error,omitempty"`
}

// object releases one object and returns the change. Without --yes, it only plans the change. It returns nil if there is nothing to remove.
func (r *release) object(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (*change, error) {
	done := r.plan(obj)
	if done == nil || !r.yes {
		return done, nil
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		patch, err := r.patch(obj, done)
		if err != nil {
			return err
		}
		err = c.Patch(ctx, obj.DeepCopy(), client.RawPatch("application/merge-patch+json", patch))
		if !apierrors.IsConflict(err) {
			return err
		}
		// Plan the change again for the new state of the object.
		uid := obj.GetUID()
		if getErr := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); getErr != nil {
			return getErr
		}
		if obj.GetUID() != uid { // another object of the same name has replaced the object
			done = nil
			return nil
		}
		if done = r.plan(obj); done == nil {
			return nil
		}
		return err
	})
	if done == nil || apierrors.IsNotFound(err) { // another client has deleted or released the object
		return nil, nil
	}
	if err != nil {
		done.Error = err.Error()
		return done, err
	}
	done.Written = true
	return done, nil
}

func (r *release) plan(obj *unstructured.Unstructured) *change {
	done := &change{Namespace: obj.GetNamespace(), Name: obj.GetName(), Finalizer: r.hasFinalizer(obj)}
	switch {
	case r.extrasOnly:
		done.Finalizer, done.Annotations = false, r.extras(obj)
	case !r.keepAnnotations:
		done.Annotations = r.annotations(obj)
	}
	if !done.Finalizer && len(done.Annotations) == 0 {
		return nil
	}
	done.Deletes = done.Finalizer && obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 1
	return done
}

// patch returns a merge patch for this object. The uid prevents changes to another object with the same name. If the patch replaces the list of
// finalizers, it also requires the resourceVersion.
func (r *release) patch(obj *unstructured.Unstructured, done *change) ([]byte, error) {
	metadata := map[string]any{"uid": string(obj.GetUID())}
	if done.Finalizer {
		others := []string{}
		for _, name := range obj.GetFinalizers() {
			if name != r.finalizer {
				others = append(others, name)
			}
		}
		metadata["finalizers"] = others
		metadata["resourceVersion"] = obj.GetResourceVersion()
	}
	annotations := map[string]any{}
	for _, key := range done.Annotations {
		annotations[key] = nil
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return json.Marshal(map[string]any{"metadata": metadata})
}
