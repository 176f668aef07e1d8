package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		{
			title: "Creating a database",
			about: "A creation handler logs the new object and has a result, which is kept in the status.\n" +
				"There is a deletion handler, too, so the object gets a finalizer first.",
			command: "kubectl create -f examples/01-minimal/config/samples/database.yaml",
			do:      d.create,
			reason:  "create",
		},
		{
			title: "Editing it",
			about: "What was handled last is remembered in an annotation: that is how an update handler knows\n" +
				"what has changed, even if the operator was down meanwhile.",
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

func (d *demo) create(ctx context.Context) error { return d.you.Create(ctx, d.sample.DeepCopy()) }

// take goes through one step, and shows what has come of it.
func (d *demo) take(ctx context.Context, number int, s step) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	d.screen.heading(fmt.Sprintf("%d. %s", number, s.title))
	d.screen.say(s.about)
	d.screen.say("\n$ " + s.command)

	if err := s.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.title, err)
	}
	obj := d.sample.DeepCopy()
	if err := d.await(ctx, fmt.Sprintf("the operator has handled the %s", s.reason), func(ctx context.Context) string {
		err := d.you.Get(ctx, client.ObjectKeyFromObject(d.sample), obj)
		switch {
		case apierrors.IsNotFound(err) && s.reason == "delete":
			obj = nil
		case err != nil:
			return err.Error()
		case s.reason == "delete":
			return "the object still exists"
		}
		if problem := unhandled(obj); problem != "" {
			return problem
		}
		return d.log.missing("Handled", `"reason": "`+s.reason+`"`)
	}); err != nil {
		return err
	}
	requests, err := d.requests.next()
	if err != nil {
		return err
	}
	d.screen.part("What the operator has logged (the lines also name the object):", shortened(d.log.next()), "(nothing)")
	d.screen.part("The object now:", summary(obj), "(it does not exist any more)")
	d.screen.part("The requests that were made to change it:", requests, "(none)")
	return nil
}
