package python

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/filter"
	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

type (
	thing   = *unstructured.Unstructured
	request = kopf.Request[thing]
)

// runChild runs the operator of a table in this process, until its standard input is closed.
func runChild(text string) error {
	var declared table
	if err := json.Unmarshal([]byte(text), &declared); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctrl.SetupSignalHandler())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	if declared.Damage != "" {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return damagingTransport{next, declared.Damage} })
	}
	ctrl.SetLogger(zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)))
	options := manager.Options{Metrics: server.Options{BindAddress: "0"}}
	var webhookOptions []kopf.Option
	if declared.Certificate != "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the port is free afterwards
		if err != nil {
			return err
		}
		port := listener.Addr().(*net.TCPAddr).Port
		if err := listener.Close(); err != nil {
			return err
		}
		options.WebhookServer = webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port})
		webhookOptions = []kopf.Option{kopf.WithWebhooks(webhooks.Options{
			Name: declared.Process + ".example.com", Configurations: webhooks.Managed, Exit: webhooks.RemoveOnExit,
			Namespace: declared.Namespace, Certificates: webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new(fmt.Sprintf("https://127.0.0.1:%d", port))},
		})}
	}
	if !declared.Clusterwide {
		options.Cache = cache.Options{DefaultNamespaces: map[string]cache.Config{declared.Namespace: {}}}
	}
	mgr, err := manager.New(config, options)
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, append(declared.options(), webhookOptions...)...); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// options returns the operator of a table.
func (d table) options() []kopf.Option {
	// Handlers that block would otherwise use up the workers. kopf's are unlimited.
	kind := []kopf.ResourceOption{kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 100})}
	if d.Share != "" {
		kind = append(kind, kopf.WatchOnly(client.MatchingLabels{"share": d.Share}))
	}
	things := kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind}), kind...)
	for _, one := range d.Handlers {
		d.add(things, one)
	}
	options := []kopf.Option{things}
	switch d.Store {
	case "smart":
	case "annotations":
		options = append(options, kopf.WithProgress(progress.Annotations(d.Prefix)), kopf.WithBaseline(progress.AnnotationBaseline(d.Prefix)))
	case "annotations-v2":
		options = append(options, kopf.WithProgress(progress.AnnotationsV2(d.Prefix)), kopf.WithBaseline(progress.AnnotationBaselineV2(d.Prefix)))
	case "status":
		options = append(options, kopf.WithProgress(progress.Status("")), kopf.WithBaseline(progress.StatusBaseline("")))
	case "multi":
		options = append(options,
			kopf.WithProgress(progress.Multi(progress.Annotations(d.Prefix), progress.Status(""))),
			kopf.WithBaseline(progress.MultiBaseline(progress.AnnotationBaseline(d.Prefix), progress.StatusBaseline(""))))
	default:
		panic("unknown store " + d.Store)
	}
	if d.Finalizer != "" {
		options = append(options, kopf.WithFinalizer(d.Finalizer))
	}
	if d.Peering != "" {
		peers := peering.Options{
			Name: d.Peering, Mandatory: true, Priority: d.Priority, Identity: d.Process, Lifetime: time.Duration(d.Lifetime) * time.Second,
		}
		if d.Share != "" {
			peers.Tie = peering.Share
		}
		if !d.Clusterwide {
			peers.Namespaces = []string{d.Namespace}
		}
		options = append(options, kopf.WithPeering(peers))
	}
	return options
}

// add declares a handler.
func (d table) add(things *kopf.Resource[thing], h handler) {
	var options []kopf.HandlerOption
	if h.Case != "" {
		options = append(options, kopf.Label("case", filter.Equal(h.Case)))
	}
	if h.Backoff > 0 {
		options = append(options, kopf.Backoff(seconds(h.Backoff)))
	}
	if h.Retries > 0 {
		options = append(options, kopf.Retries(h.Retries))
	}
	switch {
	case h.Admission == "mutate":
		things.Mutate(h.ID, func(_ context.Context, req *webhooks.Request[thing]) error {
			annotations := maps.Clone(req.Object.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[d.Process] = "was here"
			req.Object.SetAnnotations(annotations)
			return nil
		})
	case h.Admission == "validate":
		things.Validate(h.ID, func(_ context.Context, req *webhooks.Request[thing]) error {
			if size, _, _ := unstructured.NestedInt64(req.Object.Object, "spec", "size"); size == unlucky {
				return webhooks.Deny(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, d.Process+" says no")
			}
			return nil
		})
	case h.Daemon:
		things.Daemon(h.ID, daemons.Daemon{}, func(ctx context.Context, req *request) error {
			if err := d.ask(ctx, req, h, "daemon"); err != nil {
				return err
			}
			<-ctx.Done()
			return d.ask(context.WithoutCancel(ctx), req, h, "stopped")
		}, options...)
	case h.Interval > 0:
		things.Timer(h.ID, daemons.Timer{Interval: seconds(h.Interval)}, func(ctx context.Context, req *request) error {
			return d.ask(ctx, req, h, "timer")
		}, options...)
	case len(h.Causes) == 1 && h.Causes[0] == "field":
		things.OnField(h.ID, h.Field, d.function(h), options...)
	default:
		var reasons []kopf.Reason
		for _, cause := range h.Causes {
			reasons = append(reasons, kopf.Reason(cause))
		}
		if h.Field != "" {
			options = append(options, kopf.Field(h.Field))
		}
		things.On(h.ID, reasons, d.function(h), options...)
	}
}

// function returns the function of a handler for causes, with its sub-handlers.
func (d table) function(h handler) kopf.Handler[thing] {
	return func(ctx context.Context, req *request) error {
		for _, sub := range h.Subs {
			req.Sub(sub, d.function(handler{ID: h.ID + "/" + sub}))
		}
		return d.ask(ctx, req, h, string(req.Reason))
	}
}

// ask reports a call, and does what the test answers.
func (d table) ask(ctx context.Context, req *request, h handler, cause string) error {
	c := call{Process: d.Process, Handler: h.ID, Object: req.Object.GetName(), Cause: cause, Retry: req.Attempt.Number, New: req.Object.Object}
	if req.Old != nil {
		c.Old = req.Old.Object
	}
	if h.Field != "" {
		c.Old, c.New = req.Field()
	}
	for _, item := range req.Diff {
		c.Diff = append(c.Diff, []any{item.Op, append([]string{}, item.Path...), item.Old, item.New})
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Server, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return err
	}
	if a.Event {
		req.Eventf("Normal", "Called", "Call", "%s was called", h.ID)
	}
	switch a.Do {
	case doSucceed:
		if a.Result != nil {
			req.SetResult(a.Result)
		}
		return nil
	case doTemporary:
		return kopf.Temporary(errors.New("busy"), seconds(a.Delay))
	case doPermanent:
		return kopf.Permanent(errors.New("invalid"))
	case doError:
		return errors.New("broken")
	default:
		return kopf.Permanent(fmt.Errorf("unknown answer %q", a.Do))
	}
}

// unlucky is the size that both sides refuse.
const unlucky = 13

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
