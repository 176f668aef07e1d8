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
		return field.Required(replicas, "say how many")
	case *n > 100:
		return field.Invalid(replicas, *n, "is more than 100")
	case *n > 50:
		req.Warn("more than 50 replicas: think of the neighbours")
	}
	return nil
}

func setDefaults(_ context.Context, req *deploymentRequest) error {
	if req.Object.Spec.RevisionHistoryLimit == nil {
		req.Object.Spec.RevisionHistoryLimit = new(int32(3))
	}
	return nil
}

// One kind, certificates from files, configurations by somebody else: as controller-runtime's own webhooks are set up.
func ExampleFor() {
	setup := func(mgr ctrl.Manager) error {
		return webhooks.For(mgr, &appsv1.Deployment{}).
			Mutate("defaults", setDefaults).
			Validate("replicas", checkReplicas).
			Complete()
	}
	_ = setup
}

// Several kinds, and everything looks after itself.
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

// What a handler may answer.
func ExampleDeny() {
	frozen := func(_ context.Context, req *deploymentRequest) error {
		if req.Object.Labels["frozen"] == "yes" && req.User.Username != "admin" {
			return webhooks.Deny(http.StatusForbidden, metav1.StatusReasonForbidden, "it is frozen: ask an admin")
		}
		return nil
	}
	req := &deploymentRequest{Object: &appsv1.Deployment{}, Call: &webhooks.Call{}}
	req.Object.Labels = map[string]string{"frozen": "yes"}
	fmt.Println(frozen(context.Background(), req))
	// Output: it is frozen: ask an admin
}

// Field errors become the causes of an Invalid answer; several are joined.
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

// Who is called for what is the API server's work: it is told by options.
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

// A handler with effects of its own says so, and has none when nothing will be stored.
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

// A kind without a Go type, and a subresource with a kind of its own.
func ExampleSubresource() {
	pods := &unstructured.Unstructured{}
	pods.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	hook := webhooks.Validating(pods, "no-exec",
		func(context.Context, *webhooks.Request[*unstructured.Unstructured]) error {
			return webhooks.Deny(http.StatusForbidden, "", "nobody runs anything in our pods")
		},
		webhooks.Subresource("exec"), webhooks.Operations(admissionregistrationv1.Connect))
	fmt.Println(hook.Check())
	// Output: <nil>
}

// Certificates of cert-manager, whose injector writes the caBundle.
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

// An operator on a laptop, for a cluster that reaches it by a name or a tunnel.
func ExampleSelfManaged() {
	options := webhooks.Options{
		Name:           "databases-of-jane.example.com",
		Configurations: webhooks.Managed,
		Exit:           webhooks.RemoveOnExit,
		Namespace:      "jane", // has the Secret
		Certificates:   webhooks.SelfManaged{Lifetime: 24 * time.Hour},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			URL: new("https://host.k3d.internal:9443"),
		},
	}
	_ = webhooks.New(mgr, options)
}

// What handlers read is in the cache before the replica is ready.
func Example_warmCaches() {
	ctx := context.Background()
	_ = func() error {
		informer, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		return mgr.AddReadyzCheck("configmaps", func(*http.Request) error {
			if !informer.HasSynced() {
				return errors.New("the config maps are not there yet")
			}
			return nil
		})
	}
}

// Configurations for those who apply them by themselves.
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
