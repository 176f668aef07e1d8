package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A step is something that a user does, and what an operator makes of it.
type step struct {
	title   string
	about   string
	command string // what a user would type
	do      func(ctx context.Context) error
	reason  string // the cause that the operator is to handle
}

const patch = `{"spec":{"sizeGiB":20}}`

func (d *demo) steps() []step {
	return []step{
		d.creation(),
		{
			title: "Editing it",
			about: "What was handled last is kept in an annotation. So the update handler can tell what has changed,\n" +
				"even if the operator was down meanwhile.",
			command: "kubectl patch database orders --type=merge -p '" + patch + "'",
			do: func(ctx context.Context) error {
				return d.you.Patch(ctx, d.sample.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
			},
			reason: "update",
		},
		{
			title:   "Deleting it",
			about:   "The finalizer holds the object until the deletion handler is done.",
			command: "kubectl delete database orders",
			do: func(ctx context.Context) error {
				return d.you.Delete(ctx, d.sample.DeepCopy())
			},
			reason: "delete",
		},
	}
}

func (d *demo) creation() step {
	return step{
		title: "Creating a database",
		about: "The creation handler logs the new object and has a result, which is kept in the status. There\n" +
			"is a deletion handler too, so the object gets a finalizer first.",
		command: "kubectl create -f examples/01-minimal/config/samples/database.yaml",
		do: func(ctx context.Context) error {
			return d.you.Create(ctx, d.sample.DeepCopy())
		},
		reason: "create",
	}
}

// take goes through one step, and shows what has come of it.
func (d *demo) take(ctx context.Context, number int, s step) error {
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
	d.screen.Part("The operator's log (each line also names the object):", d.log.shortened(), "(nothing)")
	d.screen.Part("The object now:", summary(obj), "(it does not exist any more)")
	d.screen.Part("The requests that have changed it:", requests, "(none)")
	return nil
}

// perform does what the step is about, and waits until the operator is done with it. It returns the
// object as it is then, nil if there is none.
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

// look returns the object, nil if there is none, or the problem that it cannot be read.
func (d *demo) look(ctx context.Context) (*unstructured.Unstructured, string) {
	obj := d.sample.DeepCopy()
	err := d.you.Get(ctx, client.ObjectKeyFromObject(d.sample), obj)
	switch {
	case apierrors.IsNotFound(err):
		return nil, ""
	case err != nil:
		return nil, err.Error()
	}
	return obj, ""
}
