package webhooks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/webhooks"
)

var mgr manager.Manager

type deploymentRequest = webhooks.Request[*appsv1.Deployment]

func checkReplicas(_ context.Context, req *deploymentRequest) error {
	replicas := field.NewPath("spec", "replicas")
	switch n := req.Object.Spec.Replicas; {
	case req.Operation == admissionv1.Delete:
		return nil
	case n == nil:
		return field.Required(replicas, "set the number of replicas")
	case *n > 100:
		return field.Invalid(replicas, *n, "is more than 100")
	case *n > 50:
		req.Warn("more than 50 replicas: check the capacity of the cluster")
	}
	return nil
}

func setDefaults(_ context.Context, req *deploymentRequest) error {
	if req.Object.Spec.RevisionHistoryLimit == nil {
		req.Object.Spec.RevisionHistoryLimit = new(int32(3))
	}
	return nil
}

// The handlers of one kind use certificates from files and configurations that the user applies, like
// controller-runtime's own webhooks.
func ExampleFor() {
	setup := func(mgr ctrl.Manager) error {
		return webhooks.For(mgr, &appsv1.Deployment{}).
			Mutate("defaults", setDefaults).
			Validate("replicas", checkReplicas).
			Complete()
	}
	_ = setup
}

// The handlers of several kinds use managed configurations and certificates.
func ExampleServer() {
	setup := func(mgr ctrl.Manager) error {
		return webhooks.New(mgr, webhooks.Options{
			Name:           "databases.example.com",
			Configurations: webhooks.Managed,
			Certificates:   webhooks.SelfManaged{},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{Name: "databases"},
			},
		}).Add(
			webhooks.Mutating(&appsv1.Deployment{}, "defaults", setDefaults),
			webhooks.Validating(&appsv1.Deployment{}, "replicas", checkReplicas, webhooks.Label("tier", "gold")),
		).SetupWithManager()
	}
	_ = setup
}

// Deny sets the status of the response.
func ExampleDeny() {
	frozen := func(_ context.Context, req *deploymentRequest) error {
		if req.Object.Labels["frozen"] == "yes" && req.User.Username != "admin" {
			return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "the Deployment is frozen: ask an administrator")
		}
		return nil
	}
	req := &deploymentRequest{Object: &appsv1.Deployment{}, Call: &webhooks.Call{}}
	req.Object.Labels = map[string]string{"frozen": "yes"}
	fmt.Println(frozen(context.Background(), req))
	// Output: the Deployment is frozen: ask an administrator
}

// Field errors become the causes of an Invalid response. Several errors can be joined.
func ExampleHandler_fields() {
	check := func(_ context.Context, req *deploymentRequest) error {
		var all field.ErrorList
		if req.Object.Spec.Paused {
			all = append(all, field.Forbidden(field.NewPath("spec", "paused"), "not here"))
		}
		if req.Object.Spec.MinReadySeconds == 0 {
			all = append(all, field.Required(field.NewPath("spec", "minReadySeconds"), ""))
		}
		return all.ToAggregate()
	}
	req := &deploymentRequest{Object: &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}}, Call: &webhooks.Call{}}
	fmt.Println(check(context.Background(), req))
	// Output: [spec.paused: Forbidden: not here, spec.minReadySeconds: Required value]
}

// Options select the requests for which the API server calls a handler.
func ExampleMatchConditions() {
	hook := webhooks.Validating(&appsv1.Deployment{}, "replicas", checkReplicas,
		webhooks.Operations(admissionregistrationv1.Create, admissionregistrationv1.Update),
		webhooks.Label("tier", "gold", "silver"),
		webhooks.MatchConditions(admissionregistrationv1.MatchCondition{
			Name: "many", Expression: "object.spec.replicas > 10",
		}),
		webhooks.TimeoutSeconds(5),
	)
	fmt.Println(hook.Check())
	// Output: <nil>
}

// The server evaluates these options, and allows other requests.
func ExampleWhen() {
	hook := webhooks.Validating(&appsv1.Deployment{}, "replicas", checkReplicas,
		webhooks.FieldChanged("spec.replicas"),
		webhooks.NoAnnotation("example.com/unchecked"),
		webhooks.When(func(req *deploymentRequest) bool { return req.User.Username != "admin" }),
	)
	fmt.Println(hook.Check())
	// Output: <nil>
}

// A handler with side effects declares them and checks DryRun.
func ExampleSideEffects() {
	reserve := func(_ context.Context, req *deploymentRequest) error {
		if req.DryRun {
			return nil
		}
		return errors.New("reserve something elsewhere")
	}
	hook := webhooks.Mutating(&appsv1.Deployment{}, "reserve", reserve,
		webhooks.SideEffects(admissionregistrationv1.SideEffectClassNoneOnDryRun))
	fmt.Println(hook.Check())
	// Output: <nil>
}

// An unstructured object selects a kind without a Go type. A subresource can have its own kind.
func ExampleSubresource() {
	pods := &unstructured.Unstructured{}
	pods.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	hook := webhooks.Validating(pods, "no-exec",
		func(context.Context, *webhooks.Request[*unstructured.Unstructured]) error {
			return webhooks.Deny(http.StatusForbidden, "", "running commands in pods is forbidden")
		},
		webhooks.Subresource("exec"), webhooks.Operations(admissionregistrationv1.Connect))
	fmt.Println(hook.Check())
	// Output: <nil>
}

// cert-manager creates the certificates, and its injector writes the caBundle.
func ExampleFiles() {
	options := webhooks.Options{
		Name:           "databases.example.com",
		Configurations: webhooks.Managed,
		Annotations:    map[string]string{"cert-manager.io/inject-ca-from": "system/serving-cert"},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "databases"},
		},
	}
	_ = webhooks.New(mgr, options)
}

// An operator on a laptop serves a cluster that reaches the operator by a host name or a tunnel.
func ExampleSelfManaged() {
	options := webhooks.Options{
		Name:           "databases-of-jane.example.com",
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Namespace:      "jane", // contains the Secret
		Certificates:   webhooks.SelfManaged{Lifetime: 24 * time.Hour},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new("https://host.k3d.internal:9443"),
		},
	}
	_ = webhooks.New(mgr, options)
}

// The replica becomes ready after the objects that handlers read are cached.
func Example_warmCaches() {
	ctx := context.Background()
	_ = func() error {
		informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		return mgr.AddReadyzCheck("configmaps", func(*http.Request) error {
			if !informer.HasSynced() {
				return errors.New("the cache of ConfigMaps is not synced")
			}
			return nil
		})
	}
}

// WriteManifests prints configurations that users apply with their own tools.
func ExampleWriteManifests() {
	err := webhooks.WriteManifests(os.Stdout, scheme, webhooks.Options{
		Name: "databases.example.com",
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "databases"},
		},
	}, webhooks.Mutating(&appsv1.Deployment{}, "defaults", setDefaults))
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// ---
	// apiVersion: admissionregistration.k8s.io/v1
	// kind: MutatingWebhookConfiguration
	// metadata:
	//   name: databases.example.com
	// webhooks:
	// - admissionReviewVersions:
	//   - v1
	//   - v1beta1
	//   clientConfig:
	//     service:
	//       name: databases
	//       namespace: system
	//       path: /defaults
	//       port: 443
	//   failurePolicy: Fail
	//   matchPolicy: Equivalent
	//   name: defaults.databases.example.com
	//   namespaceSelector:
	//     matchExpressions:
	//     - key: kubernetes.io/metadata.name
	//       operator: NotIn
	//       values:
	//       - kube-system
	//   objectSelector: {}
	//   reinvocationPolicy: Never
	//   rules:
	//   - apiGroups:
	//     - apps
	//     apiVersions:
	//     - v1
	//     operations:
	//     - CREATE
	//     - UPDATE
	//     resources:
	//     - deployments
	//     scope: '*'
	//   sideEffects: None
	//   timeoutSeconds: 10
}
