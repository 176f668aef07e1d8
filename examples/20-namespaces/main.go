// Command 20-namespaces is an operator that handles ConfigMaps only in namespaces with a label, also when the label is added or removed later.
package main

import (
	"context"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

const (
	managedLabel     = "shop.example.com/managed"    // of namespaces that the operator handles
	priceListLabel   = "shop.example.com/price-list" // of ConfigMaps that the operator checks
	pricesAnnotation = "shop.example.com/prices"     // the number of prices in a checked ConfigMap
)

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
	if err := kopf.SetupWithManager(mgr, operator()...); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

func operator() []kopf.Option {
	return []kopf.Option{priceLists(), kopf.WithNamespaceFunc(isManaged)}
}

// isManaged reports whether the operator handles a namespace. The operator calls it for each change of a Namespace.
func isManaged(ns *corev1.Namespace) bool { return ns.Labels[managedLabel] == "true" }

// priceLists declares only create and update handlers, so the engine adds no finalizers. In a namespace that the operator no longer handles, a
// finalizer would block deletions.
func priceLists() *kopf.Resource[*corev1.ConfigMap] {
	isPriceList := kopf.Label(priceListLabel)
	return kopf.For(&corev1.ConfigMap{}).
		OnCreate("check", check, isPriceList).
		OnUpdate("recheck", check, isPriceList, kopf.Field("data"))
}

// check counts the prices of a price list.
func check(ctx context.Context, req *kopf.Request[*corev1.ConfigMap]) error {
	prices := len(req.Object.Data)
	metav1.SetMetaDataAnnotation(&req.Object.ObjectMeta, pricesAnnotation, strconv.Itoa(prices))
	log.FromContext(ctx).Info("Checked the price list", "prices", prices)
	return nil
}
