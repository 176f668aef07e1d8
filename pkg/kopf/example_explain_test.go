package kopf_test

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// The page needs a metrics server that authenticates its users.
func ExampleWithStatusPage() {
	setup := func(mgr ctrl.Manager) error {
		configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("copy", copyConfigMap)
		return kopf.SetupWithManager(mgr, configMaps, kopf.WithStatusPage())
	}
	_ = setup
}

// Explain explains for each handler why the operator calls or does not call it.
func ExampleOperator_Explain() {
	explain := func(ctx context.Context, operator *kopf.Operator, obj *corev1.ConfigMap) {
		explanation, err := operator.Explain(ctx, obj)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = explanation.Write(os.Stdout)
	}
	_ = explain
}
