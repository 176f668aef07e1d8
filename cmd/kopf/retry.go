package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/retry"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func newRetry() *cobra.Command {
	var which selection
	var form output
	var what retrying
	cmd := &cobra.Command{
		Use:   "retry KIND [NAME...]",
		Short: "Ask the operator to call a handler again now",
		Long: `The operator calls the handler at once: it cuts a delay short, starts a failed handler again, and calls a finished one of an earlier
cycle with an empty diff. The command waits for the answer, unless you pass --no-wait. It only writes the annotation PREFIX/retry.HANDLER, as
kubectl annotate can do, too. The operator answers in PREFIX/retried.HANDLER.

A timer, or a daemon that waits for its retry, is started at once, and the command does not wait for it. For a sub-handler, name its parent.
Operators in Python ignore requests.`,
		Example: `  # A creation has failed permanently, and its cause is repaired:
  kopf retry databases orders -n shop --handler provision
  # For all objects of a tenant, without waiting for the handlers:
  kopf retry databases -A -l tenant=acme --handler provision --no-wait`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(form.check(), what.check()); err != nil {
				return err
			}
			results := []retried{}
			err := which.each(cmd.Context(), args, func(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
				var problems []error
				for _, id := range what.handlers {
					result, err := what.handler(ctx, c, obj, id)
					if problems = append(problems, err); result != nil {
						results = append(results, *result)
					}
				}
				return errors.Join(problems...)
			})
			return errors.Join(form.write(cmd.OutOrStdout(), results, func() [][]string { return retriedRows(results) }), err)
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	fs := cmd.Flags()
	fs.StringArrayVar(&what.handlers, "handler", nil, "id of the handler; repeatable")
	fs.StringVar(&what.prefix, "prefix", progress.DefaultPrefix, "prefix of the operator's annotations")
	fs.StringVar(&what.text, "text", "", "text of the request (default: the time)")
	fs.BoolVar(&what.noWait, "no-wait", false, "do not wait until the handler has succeeded or failed permanently")
	fs.DurationVar(&what.timeout, "timeout", time.Minute, "how long to wait for each handler")
	if err := cmd.MarkFlagRequired("handler"); err != nil {
		panic(err) // a flag without a definition
	}
	return cmd
}

// retrying says what to call again.
type retrying struct {
	handlers     []string
	prefix, text string
	noWait       bool
	timeout      time.Duration
}

func (r *retrying) check() error {
	if r.text == "" {
		r.text = time.Now().UTC().Format(time.RFC3339Nano)
	}
	if problems := validation.IsDNS1123Subdomain(r.prefix); len(problems) > 0 {
		return fmt.Errorf("--prefix %q: %s", r.prefix, problems[0])
	}
	if slices.Contains(r.handlers, "") {
		return errors.New("--handler is empty: use the id of a handler")
	}
	if r.timeout <= 0 {
		return fmt.Errorf("--timeout must be positive, got %s", r.timeout)
	}
	return nil
}

// A retried is the result for one handler of an object.
type retried struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Handler   string `json:"handler"`
	retry.Answer
}

// requested is the outcome without an answer.
const requested retry.Outcome = "requested"

func (r *retrying) handler(ctx context.Context, c client.Client, obj *unstructured.Unstructured, id string) (*retried, error) {
	request, answerKey := retry.RequestKey(r.prefix, id), retry.AnswerKey(r.prefix, id)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": obj.GetUID(), "annotations": map[string]any{request: r.text}}})
	if err != nil {
		return nil, err
	}
	result := &retried{obj.GetNamespace(), obj.GetName(), id, retry.Answer{Request: r.text, Outcome: requested}}
	send := func() error { return c.Patch(ctx, obj, client.RawPatch("application/merge-patch+json", patch)) }
	if err := send(); err != nil || r.noWait {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for {
		var answer retry.Answer
		err := json.Unmarshal([]byte(obj.GetAnnotations()[answerKey]), &answer)
		_, isPending := obj.GetAnnotations()[request]
		if isOurs := err == nil && answer.Request == r.text; isOurs {
			result.Answer = answer
		} else if !isPending { // the operator has answered an earlier request at the same moment, and has removed this one
			if err := send(); err != nil {
				return result, err
			}
		}
		switch result.Outcome {
		case retry.Succeeded, retry.Called:
			return result, nil
		case retry.Failed, retry.Refused:
			return result, fmt.Errorf("%s: %s: %s", id, result.Outcome, result.Message)
		case retry.Retrying, requested:
		}
		select {
		case <-ctx.Done():
			return result, r.noAnswer(id, result.Outcome)
		case <-time.After(time.Second / 2):
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil && ctx.Err() == nil {
			return result, err
		}
	}
}

func (r *retrying) noAnswer(id string, outcome retry.Outcome) error {
	if outcome == retry.Retrying {
		return fmt.Errorf("%s: still retrying after %s; the operator continues", id, r.timeout)
	}
	return fmt.Errorf("%s: no answer after %s: the operator may be stopped or paused, have another --prefix, be busy with other handlers of the object, "+
		"or be one in Python; the request stays, and kopf why says what the object is waiting for", id, r.timeout)
}

func retriedRows(results []retried) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "HANDLER", "OUTCOME", "MESSAGE"}}
	for _, one := range results {
		rows = append(rows, []string{one.Namespace, one.Name, one.Handler, string(one.Outcome), one.Message})
	}
	return rows
}
