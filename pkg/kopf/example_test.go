package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var mgr ctrl.Manager

func ExampleFor() {
	configMaps := kopf.For(&corev1.ConfigMap{}, kopf.WithControllerOptions(controller.Options{MaxConcurrentReconciles: 4})).
		OnCreate("announce", func(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			log.FromContext(ctx).Info("A config map is new", "keys", len(req.Object.Data))
			return nil
		})

	_ = mgr.Add(kopf.New(mgr, configMaps))
}

func ExampleUnstructured() {
	databases := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

	resource := kopf.For(kopf.Unstructured(databases)).
		OnCreate("provision", func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			size, _, err := unstructured.NestedInt64(req.Object.Object, "spec", "size")
			if err != nil {
				return kopf.Permanent(err)
			}
			fmt.Println(size)
			return nil
		})

	_ = mgr.Add(kopf.New(mgr, resource))
}

func ExampleMetadata() {
	secrets := corev1.SchemeGroupVersion.WithKind("Secret")

	// Neither the cache nor the handlers receive the data of the secrets.
	resource := kopf.For(kopf.Metadata(secrets)).
		OnUpdate("relabelled", func(_ context.Context, _ *kopf.Request[*metadata]) error { return nil })

	_ = mgr.Add(kopf.New(mgr, resource))
}

func ExampleResource_OnCreate() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision).
		OnDelete("drop", drop)

	_ = kopf.SetupWithManager(mgr, databases)
}

func ExampleResource_OnUpdate() {
	kopf.For(&corev1.ConfigMap{}).
		OnUpdate("changed", func(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			for _, item := range req.Diff {
				log.FromContext(ctx).Info("Changed", "field", item.Path.String(), "old", item.Old, "new", item.New)
			}
			if len(req.Old.Data) > len(req.Object.Data) {
				log.FromContext(ctx).Info("Keys were removed")
			}
			return nil
		})
}

func ExampleResource_OnDelete() {
	kopf.For(&corev1.ConfigMap{}).
		// The object exists until this handler has succeeded or failed permanently.
		OnDelete("backup", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil },
			kopf.Retries(5), kopf.Backoff(10*time.Second)).
		// This handler does not block the deletion.
		OnDelete("notify", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil },
			kopf.Optional())
}

func ExampleResource_OnResume() {
	kopf.For(&corev1.ConfigMap{}).
		// After each start, the operator calls the handler once for each object that was handled before.
		OnResume("reconnect", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil })
}

func ExampleResource_On() {
	connect := func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
		fmt.Println("connecting because of", req.Reason)
		return nil
	}
	// The handler runs for new objects, and for existing objects after a start of the operator.
	kopf.For(&corev1.ConfigMap{}).
		On("connect", []kopf.Reason{kopf.ReasonCreate, kopf.ReasonResume}, connect)
}

func ExampleTemporary() {
	kopf.For(&corev1.ConfigMap{}).
		OnCreate("wait", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error {
			return kopf.Temporary(errors.New("the server is not up yet"), 10*time.Second)
		}, kopf.Timeout(time.Hour))
}

func ExamplePermanent() {
	kopf.For(&corev1.ConfigMap{}).
		OnCreateOrUpdate("check", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			if req.Object.Data["url"] == "" {
				return kopf.Permanent(errors.New("data.url is missing: set it")) // the next update of the object calls the handler again
			}
			return nil
		})
}

func ExampleRequest_SetResult() {
	databases := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Database"}

	kopf.For(kopf.Unstructured(databases)).
		OnCreate("provision", func(_ context.Context, req *kopf.Request[*unstructured.Unstructured]) error {
			req.SetResult(map[string]any{"address": "10.0.0.1"}) // status.provision.address
			return nil
		})
}

func ExampleNew() {
	configMaps := kopf.For(&corev1.ConfigMap{}).
		OnCreate("announce", func(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil })

	// A second operator for the same kind stores its data separately.
	second := kopf.New(mgr, configMaps,
		kopf.WithFinalizer("second.example.com/finalizer"),
		kopf.WithProgress(progress.Annotations("second.example.com")),
		kopf.WithBaseline(progress.AnnotationBaseline("second.example.com")),
		kopf.WithLifecycle(progress.Asap),
		kopf.WithCheckpoint(0),
	)
	_ = mgr.Add(second)
}

func ExampleSetupWithManager() {
	configMaps := kopf.For(&corev1.ConfigMap{})

	// The resource has no handlers, so SetupWithManager returns an error and adds nothing.
	err := kopf.SetupWithManager(mgr, configMaps)
	fmt.Println(err != nil)
}
