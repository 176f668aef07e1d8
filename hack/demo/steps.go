package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A step is an action of a user and the reaction of the operator.
type step struct {
	title   string
	about   string
	command string // the equivalent kubectl command
	do      func(ctx context.Context) error
	reason  string // the cause that the operator must handle
}

const patch = `{"spec":{"sizeGiB":20}}`

func (d *demo) steps() []step {
	return []step{
		d.creation(),
		{
			title: "Editing it",
			about: "The last-handled configuration is stored in an annotation. The update handler compares it with the object,\n" +
				"even if the operator was down during the change.",
			command: "kubectl patch database orders --type=merge -p '" + patch + "'",
			do: func(ctx context.Context) error {
				return d.user.Patch(ctx, d.sample.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
			},
			reason: "update",
		},
		{
			title:   "Deleting it",
			about:   "The finalizer keeps the object until the delete handler has finished.",
			command: "kubectl delete database orders",
			do: func(ctx context.Context) error {
				return d.user.Delete(ctx, d.sample.DeepCopy())
			},
			reason: "delete",
		},
	}
}

func (d *demo) creation() step {
	return step{
		title: "Creating a database",
		about: "The create handler logs the new object and returns a result, which is stored in the status. Because\n" +
			"there is a delete handler, the engine adds a finalizer first.",
		command: "kubectl create -f examples/01-minimal/config/samples/database.yaml",
		do: func(ctx context.Context) error {
			return d.user.Create(ctx, d.sample.DeepCopy())
		},
		reason: "create",
	}
}

// runStep runs a step and shows the results.
func (d *demo) runStep(ctx context.Context, number int, s step) error {
	d.screen.Heading(fmt.Sprintf("%d. %s", number, s.title))
	d.screen.Say(s.about + "\n\n$ " + s.command)
	obj, err := d.perform(ctx, s)
	if err != nil {
		return err
	}
	requests, err := d.requests.next()
	if err != nil {
		return err
	}
	d.screen.Part("The log of the operator (each line also names the object):", d.log.shortened(), "(nothing)")
	d.screen.Part("The object:", summary(obj), "(deleted)")
	d.screen.Part("The write requests for the object:", requests, "(none)")
	return nil
}

// perform runs the action of a step and waits until the operator has handled it. It returns the object, or nil if it was deleted.
func (d *demo) perform(ctx context.Context, s step) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := s.do(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", s.command, err)
	}
	var obj *unstructured.Unstructured
	err := d.await(ctx, "the operator has handled the "+s.reason, func(ctx context.Context) string {
		var problem string
		if obj, problem = d.look(ctx); problem != "" {
			return problem
		}
		if problem := unhandled(obj, s.reason); problem != "" {
			return problem
		}
		return d.log.missing("Handled", `"reason": "`+s.reason+`"`)
	})
	return obj, err
}

// look returns the object, or nil if it does not exist. If it cannot be read, it returns the error text.
func (d *demo) look(ctx context.Context) (*unstructured.Unstructured, string) {
	obj := d.sample.DeepCopy()
	err := d.user.Get(ctx, client.ObjectKeyFromObject(d.sample), obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, ""
	case err != nil:
		return nil, err.Error()
	}
	return obj, ""
}
