package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/children"
	"github.com/kopf-runtime/kopf-runtime/pkg/conditions"
	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// Bucket has conditions in its status.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Files []string `json:"files,omitempty"`
	} `json:"spec"`
	Status struct {
		Copied     int                `json:"copied,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status"`
}

func (b *Bucket) DeepCopyObject() runtime.Object { out := *b; return &out }

func ExampleWithPanicCondition() {
	kopf.For(&Bucket{},
		kopf.WithPanicCondition("Degraded"),
		kopf.WithRootCondition(conditions.Root{Of: []string{"Created"}, Not: []string{"Degraded"}}), // a bucket is not ready after a panic
	).OnCreate("create", build, kopf.ReportCondition("Created"))
}

type BucketRequest = kopf.Request[*Bucket]

func build(context.Context, *BucketRequest) error { return nil }

func upload(context.Context, *BucketRequest, string) error { return nil }

func ExampleRequest_Conditions() {
	connect := func(_ context.Context, req *BucketRequest) error {
		if len(req.Object.Spec.Files) == 0 {
			req.Conditions().False("Filled", "NoFiles", "spec.files is empty")
			return nil
		}
		req.Conditions().True("Filled", "Copied", "")
		return nil
	}

	// In a test of the handler, the conditions are set in req.Object. In an operator, they are written at the end of
	// the reconcile.
	req := &BucketRequest{Object: &Bucket{}}
	fmt.Println(connect(context.Background(), req))
	fmt.Println(conditions.Is(req.Object, "Filled", metav1.ConditionFalse), req.Object.Status.Conditions[0].Reason)
	// Output:
	// <nil>
	// true NoFiles
}

// A conditions.Error sets the condition and makes the operator retry the handler.
func ExampleRequest_Conditions_error() {
	kopf.For(&Bucket{}).
		OnCreate("connect", func(context.Context, *BucketRequest) error {
			return conditions.Error{Type: "Reachable", Reason: "Refused", Err: errors.New("dial tcp 10.0.0.1:443: refused")}
		})
}

func ExampleWithConditions() {
	kopf.For(&Bucket{}, kopf.WithConditions("Ready", "Created", "Reachable")).
		OnCreate("create", build, kopf.ReportCondition("Created")).
		OnReconcile("connect", func(_ context.Context, req *BucketRequest) error {
			req.Conditions().True("Reachable", "Connected", "") // Ready is True when both are True
			return nil
		})
}

func ExampleWithRootCondition() {
	kopf.For(&Bucket{}, kopf.WithConditions("Created", "Full"),
		// False is the healthy status of Full.
		kopf.WithRootCondition(conditions.Root{Of: []string{"Created"}, Not: []string{"Full"}})).
		OnCreate("create", build, kopf.ReportCondition("Created"))
}

func ExampleReportCondition() {
	kopf.For(&Bucket{}).
		// Created is Unknown (Running), False (Retrying, Failed) with the error, or True (Succeeded).
		OnCreate("create", build, kopf.ReportCondition("Created"), kopf.Retries(10)).
		OnReconcile("sync", build, kopf.ReportCondition("Synced"))
}

func ExampleWhenCondition() {
	kopf.For(&Bucket{}).
		Timer("remind", daemons.Timer{Interval: time.Minute}, build, kopf.WhenCondition("Ready", metav1.ConditionFalse))
}

func ExampleResource_OnCondition() {
	kopf.For(&Bucket{}).
		OnCondition("announce", "Ready", func(ctx context.Context, req *BucketRequest) error {
			before, now := req.Field()
			log.FromContext(ctx).Info("Ready has changed", "before", before, "now", now)
			return nil
		})
}

// OnCondition also works for kinds of other operators, with or without a Go type.
func ExampleResource_OnCondition_others() {
	kopf.For(&appsv1.Deployment{}).
		OnCondition("rolled-out", "Available", func(_ context.Context, req *kopf.Request[*appsv1.Deployment]) error {
			if _, now := req.Field(); now == "False" {
				req.Eventf("Warning", "NotAvailable", "Watch", "%d of %d", req.Object.Status.AvailableReplicas, req.Object.Status.Replicas)
			}
			return nil
		})

	topic := schema.GroupVersionKind{Group: "kafka.strimzi.io", Version: "v1beta2", Kind: "KafkaTopic"}
	kopf.For(kopf.Unstructured(topic)).
		OnCondition("ready", "Ready", func(context.Context, *kopf.Request[*unstructured.Unstructured]) error { return nil })
}

func ExampleRequest_Flush() {
	kopf.For(&Bucket{}).
		OnCreate("fill", func(ctx context.Context, req *BucketRequest) error {
			for n, file := range req.Object.Spec.Files {
				req.Object.Status.Copied = n
				req.Conditions().Unknown("Filled", "Copying", fmt.Sprintf("%d of %d files", n, len(req.Object.Spec.Files)))
				if err := req.Flush(ctx); err != nil {
					return err
				}
				if err := upload(ctx, req, file); err != nil {
					return err
				}
			}
			req.Conditions().True("Filled", "Copied", "")
			return nil
		})
}

func ExampleRequest_Adopt() {
	kopf.For(&Bucket{}).
		OnCreate("index", func(ctx context.Context, req *BucketRequest) error {
			index := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "index")}}
			if err := req.Adopt(index); err != nil {
				return err // the error describes why the index cannot be a child
			}
			return req.Client.Create(ctx, index)
		})
}

// A handler copies the annotations of the object to a child. Without UserAnnotations, the child would receive the progress of the handlers, too.
func ExampleUserAnnotations() {
	kopf.For(&corev1.ConfigMap{}).
		OnReconcile("service", func(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: req.Object.Namespace, Name: req.Object.Name}}
			_, err := controllerutil.CreateOrUpdate(ctx, req.Client, service, func() error {
				service.Annotations = kopf.UserAnnotations(req.Object)
				return req.Adopt(service)
			})
			return err
		})

	db := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"example.com/team": "storage",
		"kopf.zalando.org/last-handled-configuration":      `{"data":{}}`,
		"kubectl.kubernetes.io/last-applied-configuration": "{}",
	}}}
	fmt.Println(kopf.UserAnnotations(db))
	// Output: map[example.com/team:storage]
}

// Apply writes the child only if it differs from the desired state.
func ExampleRequest_Adopt_apply() {
	kopf.For(&Bucket{}).
		OnReconcile("server", func(ctx context.Context, req *BucketRequest) error {
			server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: children.Name(req.Object, "server")}}
			results, err := children.Of(req.Object, req.Client, children.FieldOwner("bucket-operator")).Apply(ctx, server)
			if err != nil {
				return err
			}
			req.Conditions().MirrorFrom(results[0].Object, "Available")
			return nil
		}).
		Owns(&appsv1.Deployment{})
}

func ExampleWithEvents() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases, kopf.WithEvents(events.Options{Level: events.Off})) // req.Eventf still posts Events
}

func ExampleWithEvents_quota() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision)

	// Handlers report each of many backups.
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithEvents(events.Options{Burst: 100, Interval: time.Minute}))
}

func ExampleWithEvents_logLines() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", func(ctx context.Context, req *DatabaseRequest) error {
			log.FromContext(ctx).Info("Created a disk", "size", req.Object.Spec.Size) // Normal Logging provision: Created a disk size=3
			return nil
		})

	_ = kopf.SetupWithManager(mgr, databases, kopf.WithEvents(events.Options{LogLines: true}))
}

func ExampleWithEvents_kopfForm() {
	databases := kopf.For(&Database{}).
		OnCreate("provision", provision)

	// Some clients select Events with reportingComponent=kopf.
	_ = kopf.SetupWithManager(mgr, databases, kopf.WithEvents(events.Options{KopfForm: &events.KopfForm{}}))
}

func ExampleWithConditionsIn() {
	topics := kopf.For(kopf.Unstructured(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Topic"}),
		kopf.WithConditionsIn(conditions.At("status.health.checks")), kopf.WithConditions("Ready"))

	_ = kopf.SetupWithManager(mgr, topics)
}
