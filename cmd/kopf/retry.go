package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/retry"
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
			t, err := which.open(args)
			if err != nil {
				return err
			}
			var calls []*call
			err = t.each(cmd.Context(), args[1:], func(ctx context.Context, _ client.Client, obj *unstructured.Unstructured) error {
				var problems []error
				for _, id := range what.handlers {
					one := &call{retrying: &what, c: t.c, obj: obj.DeepCopy(), id: id}
					if problems = append(problems, one.request(ctx)); problems[len(problems)-1] == nil {
						calls = append(calls, one)
					}
				}
				return errors.Join(problems...)
			})
			problems := []error{err}
			for _, one := range calls {
				problems = append(problems, withObject(one.await(cmd.Context()), one.obj.GetNamespace(), one.obj.GetName()))
			}
			return errors.Join(form.write(cmd.OutOrStdout(), retriedOf(calls), func() [][]string { return retriedRows(calls) }), errors.Join(problems...))
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
	if len(r.text) > retry.MaxRequest {
		return fmt.Errorf("--text has %d bytes: use at most %d", len(r.text), retry.MaxRequest)
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

// The outcomes that are no answers.
const (
	requested retry.Outcome = "requested"
	deleted   retry.Outcome = "deleted" // the object is gone, which ends the calls of its delete handlers
)

// A call is the request for one handler of an object.
type call struct {
	*retrying
	c      client.WithWatch
	obj    *unstructured.Unstructured
	id     string
	answer retry.Answer
}

// request writes the request. The object is then the one from the response.
func (c *call) request(ctx context.Context) error {
	all := map[string]string{retry.RequestKey(c.prefix, c.id): c.text}
	annotations.Mark(all, c.prefix)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.obj.GetUID(), "annotations": all}})
	if err != nil {
		return err
	}
	c.answer = retry.Answer{Request: c.text, Outcome: requested}
	return c.c.Patch(ctx, c.obj, client.RawPatch("application/merge-patch+json", patch))
}

// await waits for the final answer, unless the user doesn't want that. It watches the object, because the next cycle removes the answer.
func (c *call) await(ctx context.Context) error {
	if c.noWait {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answered, err := c.read(ctx)
	for !answered && err == nil {
		if answered, err = c.watch(ctx); apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			if err = c.c.Get(ctx, client.ObjectKeyFromObject(c.obj), c.obj); err == nil {
				answered, err = c.read(ctx)
			}
		}
	}
	switch {
	case ctx.Err() != nil && !answered:
		return c.noAnswer()
	case apierrors.IsNotFound(err):
		c.answer.Outcome = deleted
		return nil
	case err != nil:
		return err
	case c.answer.Outcome == retry.Failed, c.answer.Outcome == retry.Refused:
		return fmt.Errorf("%s: %s: %s", c.id, c.answer.Outcome, c.answer.Message)
	}
	return nil
}

// watch reads all later states of the object, until there is an answer.
func (c *call) watch(ctx context.Context) (answered bool, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(c.obj.GroupVersionKind())
	source := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", c.obj.GetName()).String()
		return c.c.Watch(ctx, list, &client.ListOptions{Namespace: c.obj.GetNamespace(), Raw: &options})
	}}
	_, err = watchtools.Until(ctx, c.obj.GetResourceVersion(), source, func(event watch.Event) (bool, error) {
		if event.Type == watch.Error {
			return false, apierrors.FromObject(event.Object)
		}
		obj, isObject := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Deleted || isObject && obj.GetUID() != c.obj.GetUID() {
			c.answer.Outcome = deleted
			return true, nil
		}
		if !isObject || event.Type == watch.Bookmark {
			return false, nil
		}
		c.obj = obj
		return c.read(ctx)
	})
	return err == nil, err
}

// read reads the answer from the object, and reports whether it is final.
func (c *call) read(ctx context.Context) (answered bool, err error) {
	all := c.obj.GetAnnotations()
	text, isPending := all[retry.RequestKey(c.prefix, c.id)]
	var answer retry.Answer
	isAnswer := json.Unmarshal([]byte(all[retry.AnswerKey(c.prefix, c.id)]), &answer) == nil
	switch {
	case isPending && text != c.text:
		return true, fmt.Errorf("%s: another client has replaced the request with %q", c.id, text)
	case isPending:
		if isAnswer && answer.Request == c.text && answer.Outcome == retry.Retrying {
			c.answer = answer
		}
		return false, nil
	case isAnswer && answer.Request == c.text:
		c.answer = answer
		return true, nil
	case isAnswer: // the operator has answered an earlier request at the same moment, and has removed this one
		return false, c.request(ctx)
	default:
		return true, fmt.Errorf("%s: the request was removed without an answer", c.id)
	}
}

func (c *call) noAnswer() error {
	if c.answer.Outcome == retry.Retrying {
		return fmt.Errorf("%s: still retrying after %s; the operator continues", c.id, c.timeout)
	}
	return fmt.Errorf("%s: no answer after %s: the operator may be stopped or paused, have another --prefix, be busy with other handlers of the object, "+
		"or be one in Python; the request stays, and kopf why says what the object is waiting for", c.id, c.timeout)
}

func retriedOf(calls []*call) []retried {
	all := []retried{}
	for _, one := range calls {
		all = append(all, retried{one.obj.GetNamespace(), one.obj.GetName(), one.id, one.answer})
	}
	return all
}

func retriedRows(calls []*call) [][]string {
	rows := [][]string{{"NAMESPACE", "NAME", "HANDLER", "OUTCOME", "MESSAGE"}}
	for _, one := range retriedOf(calls) {
		rows = append(rows, []string{one.Namespace, one.Name, one.Handler, string(one.Outcome), one.Message})
	}
	return rows
}
