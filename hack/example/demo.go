package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A step is an action of a user and the reaction of the operator.
type step struct {
	title   string
	about   string
	command string // the equivalent kubectl command
	do      func(ctx context.Context, c client.Client, obj client.Object) error
	reason  string // the cause that the operator must handle
}

const (
	patch     = `{"spec":{"sizeGiB":20}}`
	stepLimit = time.Minute // a step usually takes about a second
)

var demoSteps = []step{
	{
		title: "Creating a database",
		about: "The create handler logs the new object and returns a result, which the engine stores in the status.\n" +
			"Because the operator has a delete handler, the engine adds a finalizer first.",
		command: "kubectl create -f examples/01-minimal/config/samples/database.yaml",
		do:      func(ctx context.Context, c client.Client, obj client.Object) error { return c.Create(ctx, obj) },
		reason:  "create",
	},
	{
		title: "Editing it",
		about: "The engine stores the last-handled configuration in an annotation and compares it with the object. It also\n" +
			"detects changes that were made while the operator was down.",
		command: "kubectl patch database orders --type=merge -p '" + patch + "'",
		do: func(ctx context.Context, c client.Client, obj client.Object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(patch)))
		},
		reason: "update",
	},
	{
		title:   "Deleting it",
		about:   "The finalizer keeps the object until the delete handler has finished.",
		command: "kubectl delete database orders",
		do:      func(ctx context.Context, c client.Client, obj client.Object) error { return c.Delete(ctx, obj) },
		reason:  "delete",
	},
}

// runDemo runs all steps and then stops the operator, or continues as an example.
func (g *stage) runDemo(ctx context.Context) error {
	samples, err := g.example.Objects("samples")
	if err != nil {
		return err
	}
	g.newLines() // skip the log lines of the start
	for i, s := range demoSteps {
		g.screen.Heading(fmt.Sprintf("%d. %s", i+1, s.title))
		if err := g.runStep(ctx, s, samples[0].DeepCopy()); err != nil {
			return err
		}
	}
	if g.keep {
		return g.runExample(ctx)
	}
	g.screen.Heading("End of the demo")
	g.screen.Say("The operator is examples/01-minimal/main.go.\nTo try it with kubectl: make demo KEEP=1")
	operator := g.operator
	g.operator = nil // do not show the log lines of the shutdown
	return operator.Stop(stopTimeout)
}

// runStep runs a step, waits until the operator has handled it, and shows the results.
func (g *stage) runStep(ctx context.Context, s step, obj *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	g.screen.Say(s.about + "\n\n$ " + s.command)
	if err := s.do(ctx, g.client, obj); err != nil {
		return fmt.Errorf("%s: %w", s.command, err)
	}
	// The operator writes the object before it logs this line.
	handled := regexp.MustCompile(`\tHandled\t.*"reason": "` + s.reason + `"`)
	if err := g.await(ctx, "end of the "+s.reason, handled.MatchString); err != nil {
		return err
	}
	log := g.newLines("name")
	state, err := g.summary(ctx, obj)
	if err != nil {
		return err
	}
	requests, err := g.newRequests()
	if err != nil {
		return err
	}
	g.screen.Part("The log of the operator (each line also names the object):", log, "(nothing)")
	g.screen.Part("The object:", state, "(deleted)")
	g.screen.Part("The write requests for the object:", requests, "(none)")
	return nil
}

// summary reads an object and returns its main fields as lines of YAML. It returns no lines if the object does not exist.
func (g *stage) summary(ctx context.Context, obj *unstructured.Unstructured) ([]string, error) {
	if err := g.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	shown := map[string]any{}
	for _, path := range [][]string{
		{"metadata", "name"}, {"metadata", "annotations"}, {"metadata", "finalizers"}, {"spec"}, {"status"},
	} {
		if value, found, _ := unstructured.NestedFieldNoCopy(obj.Object, path...); found {
			if err := unstructured.SetNestedField(shown, value, path...); err != nil {
				return nil, err
			}
		}
	}
	text, err := yaml.Marshal(shown)
	return strings.Split(strings.TrimSpace(string(text)), "\n"), err
}
