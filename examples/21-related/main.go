// Command 21-related is an operator that renders ConfigMaps from other objects, and renders them again when those objects change.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// A ConfigMap with the label theme is a page. The value is the name of the ConfigMap with the theme of the page.
const themeLabel = "related.example.com/theme"

func main() {
	ctrl.SetLogger(zap.New(zap.ConsoleEncoder()))
	if err := run(); err != nil {
		ctrl.Log.Error(err, "The operator has failed")
		os.Exit(1)
	}
}

func run() error {
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{NewCache: kopf.NewCache, Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	if err := kopf.SetupWithManager(mgr, pages()); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func pages() *kopf.Resource[*corev1.ConfigMap] {
	isPage := kopf.Label(themeLabel)
	resource := kopf.For(&corev1.ConfigMap{}).OnReconcile("render", render, isPage)
	// The index contains the pages of each namespace.
	inNamespace := kopf.IndexBy(resource, "in-namespace", func(_ context.Context, req *kopf.Request[*corev1.ConfigMap]) (map[string]types.NamespacedName, error) {
		return map[string]types.NamespacedName{req.Object.Namespace: client.ObjectKeyFromObject(req.Object)}, nil
	}, isPage)
	// A page lists all Services of its namespace, so the map function returns all pages of the namespace of a changed Service. The
	// operator needs only the metadata of the Services.
	return resource.WatchesMetadata(&corev1.Service{}, func(_ context.Context, service client.Object) (requests []reconcile.Request) {
		for _, key := range inNamespace.Get(service.GetNamespace()) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	})
}

// render writes the title of the theme and the names of all Services to the page.
func render(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
	page := req.Object
	theme := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: page.Namespace, Name: page.Labels[themeLabel]}}
	// After Track, each change of the theme calls render again, including its creation.
	if err := req.Track(ctx, theme); client.IgnoreNotFound(err) != nil {
		return err
	}
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	if err := req.Client.List(ctx, services, client.InNamespace(page.Namespace)); err != nil {
		return err
	}
	var names []string
	for _, service := range services.Items {
		names = append(names, service.Name)
	}
	slices.Sort(names)
	text := fmt.Sprintf("%s: %s", theme.Data["title"], strings.Join(names, ", "))
	if page.Data["text"] == text {
		return nil
	}
	page.Data = map[string]string{"text": text}
	log.FromContext(ctx).Info("Rendered the page", "text", text)
	return nil
}
