package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// A step is an action of a user and the reaction of the operator.
type step struct {
	title, about string
	command      string // the equivalent kubectl command
	do           func(ctx context.Context, c client.Client, obj client.Object) error
	reason       string // the cause that the operator must handle
}

const edit = `{"spec":{"sizeGiB":20}}`

var demoSteps = []step{
	{
		title: "1. Creating a database",
		about: "The create handler logs the new object and returns a result, which the engine stores in the status.\n" +
			"Because the operator has a delete handler, the engine adds a finalizer first.",
		command: "kubectl create -f examples/01-minimal/config/samples/database.yaml",
		do:      func(ctx context.Context, c client.Client, obj client.Object) error { return c.Create(ctx, obj) },
		reason:  "create",
	},
	{
		title: "2. Editing it",
		about: "The engine stores the last-handled configuration in an annotation and compares it with the object. So it also\n" +
			"sees changes that were made while the operator was down.",
		command: "kubectl patch database orders --type=merge -p '" + edit + "'",
		do: func(ctx context.Context, c client.Client, obj client.Object) error {
			return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(edit)))
		},
		reason: "update",
	},
	{
		title:   "3. Deleting it",
		about:   "The finalizer keeps the object until the delete handler has finished.",
		command: "kubectl delete database orders",
		do:      func(ctx context.Context, c client.Client, obj client.Object) error { return c.Delete(ctx, obj) },
		reason:  "delete",
	},
}

// play plays all steps of the demo.
func (r *run) play(ctx context.Context) error {
	samples, err := r.example.Objects("samples")
	if err != nil {
		return err
	}
	r.newLines() // those of the start
	for _, s := range demoSteps {
		r.heading(s.title)
		r.sayf("%s\n\n$ %s", s.about, s.command)
		obj := samples[0].DeepCopy()
		if err := s.do(ctx, r.client, obj); err != nil {
			return fmt.Errorf("%s: %w", s.command, err)
		}
		// The operator writes the object before it logs this line.
		handled := func(log string) bool {
			return strings.Contains(log, "\tHandled\t") && strings.Contains(log, `"reason": "`+s.reason+`"`)
		}
		if err := r.await(ctx, "end of the "+s.reason, handled); err != nil {
			return err
		}
		if err := r.showStep(ctx, obj); err != nil {
			return err
		}
	}
	r.heading("End of the demo")
	r.sayf("The operator is examples/01-minimal/main.go. To try it with kubectl: make demo KEEP=1")
	return nil
}

// showStep prints the new log lines, the object, and the write requests for it.
func (r *run) showStep(ctx context.Context, obj client.Object) error {
	r.sayf("\nThe log of the operator:")
	r.showLog()
	r.sayf("\nThe object:")
	state := "(deleted)\n"
	if err := r.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); client.IgnoreNotFound(err) != nil {
		return err
	} else if err == nil {
		obj.SetManagedFields(nil)
		text, err := yaml.Marshal(obj)
		if err != nil {
			return err
		}
		state = string(text)
	}
	for line := range strings.Lines(state) {
		r.sayf("  %s", strings.TrimRight(line, "\n"))
	}
	r.sayf("\nThe write requests for the object:")
	writes, err := r.server.Writes()
	for _, one := range writes {
		if !strings.HasPrefix(one.Path, "databases") {
			continue
		}
		who := "you"
		if strings.HasPrefix(one.UserAgent, r.name+"/") {
			who = "operator"
		}
		var body bytes.Buffer
		if one.Method == http.MethodDelete || json.Compact(&body, one.Body) != nil { // the body of a deletion contains only default options
			body.Reset()
		}
		r.sayf("  %-8s  %-6s  %-23s  %d  %s", who, one.Method, one.Path, one.Code, body.String())
	}
	return err
}
