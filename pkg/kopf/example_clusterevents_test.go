package kopf_test

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/clusterevents"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func ExampleResource_OnEventAbout() {
	kopf.For(&Database{}).
		OnEventAbout("scheduling", clusterevents.Selector{
			About:   []client.Object{&corev1.Pod{}},                              // Events about pods
			Through: []client.Object{&appsv1.ReplicaSet{}, &appsv1.Deployment{}}, // the kinds between the pods and the Database
			Reasons: []string{"FailedScheduling"},
		}, func(_ context.Context, req *DatabaseRequest, event *corev1.Event) error {
			req.Object.Status.Phase = event.Message // the engine writes this change, as for other handlers
			return nil
		})
}

func ExampleOnVersion() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases,
		kopf.OnVersion("upgrade", func(ctx context.Context, old, current version.Info) error {
			if old.GitVersion != "" { // empty at the start
				log.FromContext(ctx).Info("The API server was upgraded", "old", old.GitVersion, "current", current.GitVersion)
			}
			return nil
		}))
}
