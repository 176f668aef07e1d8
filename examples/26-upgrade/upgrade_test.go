package main

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

const (
	kind   = "databases.demo.example.com"
	retry  = "kopf.zalando.org/retry.configure"
	optOut = "kopf-runtime.dev/rollout"
)

// The rollout halts after two failures, and reaches the other databases when someone resumes it.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := kopftest.Memory(t, kopftest.CRDs("config/crd"), kopftest.Objects(samples()...))
		first := cluster.Run(t, operator(1)...)
		first.RunUntilQuiet(t)
		expectCiphers(t, cluster, "archive none, orders none, photos none, stock none, users none")
		first.Stop(t)

		cluster.Run(t, operator(2)...)
		<-time.After(time.Minute)
		expectCiphers(t, cluster, "archive none, orders none, photos none, stock none, users none")
		expectState(t, cluster, "2 of 2 canaries have failed", rollout.Progress{Total: 4, Waiting: 2, Done: 2, Failed: 2})

		kopftest.Edit(t, cluster, ciphers(), func(all *corev1.ConfigMap) { all.Data["mysql"] = "aes-256" })
		<-time.After(time.Second) // the handler reads the ConfigMap from a cache
		for _, name := range []string{"stock", "users"} {
			annotate(t, cluster, name, retry, "now")
		}
		<-time.After(time.Minute)
		expectCiphers(t, cluster, "archive none, orders none, photos none, stock aes-256, users aes-256")
		if err := rollout.Resume(t.Context(), cluster.Client, stateKey, kind); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		expectCiphers(t, cluster, "archive none, orders aes-256, photos aes-256, stock aes-256, users aes-256")
		expectState(t, cluster, "", rollout.Progress{Total: 4, Done: 4})

		annotate(t, cluster, "archive", optOut, "")
		<-time.After(time.Minute)
		expectCiphers(t, cluster, "archive aes-256, orders aes-256, photos aes-256, stock aes-256, users aes-256")
	})
}

// Version 2 can replace version 1 at each of its writes. The rollout alone writes to databases that nobody has edited, and the way back calls
// no handler.
func TestUpgrade(t *testing.T) {
	kopftest.Upgrade(t, func() kopftest.Versions {
		return kopftest.Versions{
			Scenario: kopftest.Scenario{
				Given:    kopftest.Given{CRDs: []string{"config/crd"}, Objects: []client.Object{ciphers(), database("orders", "postgres", ""), database("stock", "mysql", "")}},
				Operator: func() []kopf.Option { return operator(1) },
				Steps:    []func(testing.TB, *kopftest.Cluster){resize("orders")},
			},
			New:   func() []kopf.Option { return operator(2) },
			Allow: []string{"patch databases/*", "create configmaps/kopf-rollout", "update configmaps/kopf-rollout"},
		}
	})
}

// A crash or another fault at any write of the rollout changes nothing in the end.
func TestExplore(t *testing.T) {
	kopftest.Explore(t, func() kopftest.Scenario {
		orders := database("orders", "postgres", "")
		orders.SetAnnotations(map[string]string{"kopf.zalando.org/last-handled-configuration": `{"spec":{"engine":"postgres","sizeGiB":10}}`}) // by version 1
		return kopftest.Scenario{
			Given:    kopftest.Given{CRDs: []string{"config/crd"}, Objects: []client.Object{ciphers(), orders}},
			Operator: func() []kopf.Option { return operator(2) },
			Steps:    []func(testing.TB, *kopftest.Cluster){resize("orders")},
			Ignore:   []string{`data.databases\.demo\.example\.com`}, // the times of the progress
		}
	}, kopftest.WithMaxPlans(10))
}

var stateKey = client.ObjectKey{Namespace: "default", Name: rollout.DefaultName}

func samples() []client.Object {
	return []client.Object{
		ciphers(), database("orders", "postgres", ""), database("photos", "postgres", ""), database("archive", "postgres", "later"),
		database("stock", "mysql", "now"), database("users", "mysql", "now"),
	}
}

func ciphers() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ciphers"}, Data: map[string]string{"postgres": "aes-256"}}
}

func database(name, engine, rollout string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1",
		"kind":       "Database",
		"metadata":   map[string]any{"namespace": "default", "name": name},
		"spec":       map[string]any{"engine": engine, "sizeGiB": int64(10)},
	}}
	if rollout != "" {
		obj.SetAnnotations(map[string]string{optOut: rollout})
	}
	return obj
}

func resize(name string) func(testing.TB, *kopftest.Cluster) {
	return func(t testing.TB, c *kopftest.Cluster) {
		kopftest.Edit(t, c, database(name, "", ""), func(obj *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(obj.Object, int64(20), "spec", "sizeGiB"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// annotate sets an annotation of a database. An empty value removes it.
func annotate(t *testing.T, c *kopftest.Cluster, name, key, value string) {
	t.Helper()
	kopftest.Edit(t, c, database(name, "", ""), func(obj *unstructured.Unstructured) {
		all := obj.GetAnnotations()
		if all[key] = value; value == "" {
			delete(all, key)
		}
		obj.SetAnnotations(all)
	})
}

func expectCiphers(t *testing.T, cluster *kopftest.Cluster, want string) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(database("", "", "").GroupVersionKind())
	if err := cluster.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, obj := range list.Items {
		cipher, _, _ := unstructured.NestedString(obj.Object, "status", "configure", "cipher")
		all = append(all, obj.GetName()+" "+cipher)
	}
	slices.Sort(all)
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("ciphers: %s, want %s", got, want)
	}
}

// expectState compares the ConfigMap of the rollout. halted is the message of the halt, or empty.
func expectState(t *testing.T, cluster *kopftest.Cluster, halted string, want rollout.Progress) {
	t.Helper()
	states, err := rollout.Load(t.Context(), cluster.Client, stateKey)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if stop := states[kind].Halted; stop != nil {
		got = stop.Message
	}
	progress := states[kind].Progress[""]
	progress.At, progress.Begun = time.Time{}, time.Time{}
	if got != halted || progress != want {
		t.Errorf("halted: %q, progress: %+v, want %q and %+v", got, progress, halted, want)
	}
}
