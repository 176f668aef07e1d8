package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/engine"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
)

func newWhy() *cobra.Command {
	var which selection
	var form output
	var look inspector
	var from operatorEndpoint
	var only []string
	cmd := &cobra.Command{
		Use:   "why KIND NAME...",
		Short: "Explain why handlers are called for an object or not",
		Long: `For each object, show the cause that the operator detects, and whether the operator calls each handler. If the operator does not call a handler,
show the reason: a filter, a delay, a pause, another handler that must succeed first, or finalizers of other controllers. Also show the last Events.

With --operator, the running operator explains the object. It must have the option WithStatusPage. Without --operator, the command uses only what
the operator has stored on the object. It then knows no filters, and only handlers that have begun.`,
		Example: `  # From the data on the object:
  kopf why databases.example.com orders -n shop
  # From the operator: all handlers with their filters:
  kubectl -n shop-system port-forward deployment/shop-controller-manager 8443 &
  kopf why databases.example.com orders -n shop --operator https://localhost:8443 --insecure-skip-tls-verify \
    --token "$(kubectl -n shop-system create token shop-status-reader)"`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(form.check(), look.prepare(nil), from.check()); err != nil {
				return err
			}
			if which.all || which.selector != "" {
				return errors.New("--all-namespaces and --selector select several objects: name one object, or use kopf objects list")
			}
			look.now = time.Now()
			explanations := []*explain.Explanation{}
			err := which.each(cmd.Context(), args, func(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
				x, err := from.explain(ctx, obj)
				if err != nil {
					return err
				}
				if x == nil {
					x = look.explain(obj)
				}
				if len(only) > 0 {
					if err := selectHandlers(x, only); err != nil {
						return err
					}
				}
				x.Events, err = eventsAbout(ctx, c, obj)
				if err != nil {
					x.Unknown = append(x.Unknown, "the Events of the object: "+err.Error())
				}
				explanations = append(explanations, x)
				return nil
			})
			if form == "table" {
				for _, x := range explanations {
					if err := x.Write(cmd.OutOrStdout()); err != nil {
						return err
					}
				}
				return err
			}
			return cmp.Or(form.write(cmd.OutOrStdout(), explanations, nil), err)
		},
	}
	which.bind(cmd.Flags())
	form.bind(cmd.Flags())
	look.bind(cmd.Flags())
	from.bind(cmd.Flags())
	cmd.Flags().StringArrayVar(&only, "handler", nil, "show only the handler with this id; repeatable")
	return cmd
}

// selectHandlers removes all handlers but the given ones from an explanation.
func selectHandlers(x *explain.Explanation, ids []string) error {
	for _, id := range ids {
		if slices.ContainsFunc(x.Handlers, func(h explain.Handler) bool { return h.ID == id }) {
			continue
		}
		var known []string
		for _, h := range x.Handlers {
			known = append(known, h.ID)
		}
		if x.Source == explain.FromRecords {
			return fmt.Errorf("the object has no progress of the handler %q, only of: %s; the handler was not called for this change, or it has succeeded: use --operator to see its filters",
				id, strings.Join(known, ", "))
		}
		return fmt.Errorf("the operator has no handler %q: it has %s", id, strings.Join(known, ", "))
	}
	x.Handlers = slices.DeleteFunc(x.Handlers, func(h explain.Handler) bool { return !slices.Contains(ids, h.ID) })
	return nil
}

// explain explains an object from the data that the operator has stored on it.
func (i *inspector) explain(obj *unstructured.Unstructured) *explain.Explanation {
	found := i.inspect(obj)
	x := &explain.Explanation{
		APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		Source: explain.FromRecords, Time: i.now,
		Cause: found.Cause, Changed: found.Changed, Deleting: found.Deleting, Finalizer: found.Finalizer, OtherFinalizers: found.OtherFinalizers,
	}
	switch {
	case found.Cause != "none":
	case found.Deleting:
		x.Cause = "free"
	default:
		x.Cause = "noop"
	}
	if hold := engine.HoldByAnnotation(obj); hold.Reason != "" {
		x.Waits = append(x.Waits, hold.Message)
	}
	for _, record := range found.Handlers {
		if x.Cause == "noop" && record.Cause == "resume" {
			x.Cause = "resume"
		}
		h := explain.Handler{ID: record.ID, State: explain.State(record.State), Attempts: record.Attempts, LastError: record.Message}
		if due, err := time.Parse(time.RFC3339, record.Due); err == nil {
			h.Due = &due
		}
		if record.State == "succeeded" {
			h.LastError = ""
		}
		if record.State == "due" && record.Attempts == 0 {
			h.Why = "the handler was not called yet; another handler may have to succeed first"
		}
		x.Handlers = append(x.Handlers, h)
	}
	for _, problem := range found.Problems {
		if !strings.HasPrefix(problem, problemFinalizers) {
			x.Unknown = append(x.Unknown, problem)
		}
	}
	x.Unknown = append(x.Unknown, "handlers that have not begun, filters, daemons, timers, and whether the operator is running or paused: use --operator")
	return x
}

// operatorEndpoint contains the flags that select the status page of an operator.
type operatorEndpoint struct {
	url, token, tokenFile string
	insecure              bool
}

func (o *operatorEndpoint) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.url, "operator", "", `URL of the metrics server of the operator, such as "https://localhost:8443"; see WithStatusPage`)
	fs.StringVar(&o.token, "token", "", "bearer token for --operator, such as the output of kubectl create token")
	fs.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token for --operator")
	fs.BoolVar(&o.insecure, "insecure-skip-tls-verify", false, "do not verify the certificate of --operator, such as the self-signed one of controller-runtime")
}

func (o *operatorEndpoint) check() error {
	if o.url == "" {
		if o.token+o.tokenFile != "" || o.insecure {
			return errors.New("--token, --token-file and --insecure-skip-tls-verify are for --operator: add it")
		}
		return nil
	}
	parsed, err := url.Parse(o.url)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return fmt.Errorf(`--operator is %q: set a URL, such as "https://localhost:8443"`, o.url)
	}
	if o.token != "" && o.tokenFile != "" {
		return errors.New("--token and --token-file are mutually exclusive: remove one")
	}
	if o.tokenFile != "" {
		text, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		o.token = strings.TrimSpace(string(text))
	}
	if o.token != "" && parsed.Scheme == "http" {
		return fmt.Errorf("--operator is %q: a token must not be sent without TLS: use https", o.url)
	}
	return nil
}

const requestTimeout = 30 * time.Second

// explain requests an explanation from the operator. It returns nil without --operator.
func (o *operatorEndpoint) explain(ctx context.Context, obj *unstructured.Unstructured) (*explain.Explanation, error) {
	if o.url == "" {
		return nil, nil
	}
	gk := schema.FromAPIVersionAndKind(obj.GetAPIVersion(), obj.GetKind()).GroupKind()
	query := url.Values{"group": {gk.Group}, "kind": {gk.Kind}, "namespace": {obj.GetNamespace()}, "name": {obj.GetName()}}
	var x explain.Explanation
	return &x, o.get(ctx, statuspage.ExplainPath+"?"+query.Encode(), &x)
}

// get reads a JSON document of the operator.
func (o *operatorEndpoint) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.url, "/")+path, nil)
	if err != nil {
		return err
	}
	if o.token != "" {
		request.Header.Set("Authorization", "Bearer "+o.token)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: o.insecure} //nolint:gosec // only with the flag
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, CheckRedirect: refuseRedirect}).Do(request)
	if err != nil {
		return fmt.Errorf("the operator does not answer (check --operator, and the port-forward): %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read the answer of the operator: %w", err)
	}
	var failure statuspage.Failure
	switch isJSON := strings.HasPrefix(response.Header.Get("Content-Type"), "application/json"); {
	case response.StatusCode == http.StatusOK && isJSON:
		if err := json.Unmarshal(body, into); err != nil {
			return fmt.Errorf("read the answer of the operator: %w", err)
		}
		return nil
	case isJSON && json.Unmarshal(body, &failure) == nil && failure.Error != "":
		return errors.New(failure.Error)
	case response.StatusCode == http.StatusUnauthorized:
		return errors.New("the operator does not accept the token: set --token, for example to the output of kubectl create token")
	case response.StatusCode == http.StatusForbidden:
		return errors.New("the user of the token has no permission: it needs a ClusterRole with the verb get for the nonResourceURLs /kopf/*")
	case response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusOK:
		return fmt.Errorf("there is no status page at %s: add the option kopf.WithStatusPage to the operator", o.url)
	default:
		return fmt.Errorf("the operator answers: %s", response.Status)
	}
}

// refuseRedirect does not follow redirects, because they could send the token to another server.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

const maxResponse = 64 << 20

const maxEvents = 5

// eventsAbout returns at most maxEvents Events about an object: the last ones, sorted by time.
func eventsAbout(ctx context.Context, c client.Client, obj *unstructured.Unstructured) (all []explain.Event, err error) {
	var list corev1.EventList
	if err := c.List(ctx, &list, client.InNamespace(cmp.Or(obj.GetNamespace(), "default")), client.MatchingFields{"involvedObject.uid": string(obj.GetUID())}); err != nil {
		if apierrors.IsForbidden(err) {
			err = errors.New("you have no permission to list events")
		}
		return nil, err
	}
	for i := range list.Items {
		one := &list.Items[i]
		at := one.LastTimestamp.Time
		if series := one.Series; series != nil {
			at = series.LastObservedTime.Time
		}
		if at.IsZero() {
			at = one.EventTime.Time
		}
		all = append(all, explain.Event{Time: at, Type: one.Type, Reason: one.Reason, Message: oneLine(one.Message)})
	}
	slices.SortFunc(all, func(a, b explain.Event) int { return a.Time.Compare(b.Time) })
	return all[max(0, len(all)-maxEvents):], nil
}
