package olm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/kopf-runtime/kopf-runtime/contrib/olm"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rights"
)

// The roles come from the handlers, and all other objects from a file.
func ExampleWrite() {
	parent, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	folder := filepath.Join(parent, "bundle")
	if err := writeCopier(folder); err != nil {
		fmt.Println(err)
		return
	}
	files, _ := filepath.Glob(filepath.Join(folder, "*", "*"))
	for _, file := range files {
		fmt.Println(filepath.Base(file))
	}
	// Output:
	// copier.clusterserviceversion.yaml
	// service_copier-webhooks.yaml
	// annotations.yaml
}

func writeCopier(folder string) error {
	file, err := os.Open("testdata/copier.yaml")
	if err != nil {
		return err
	}
	defer file.Close()
	objects, err := olm.ReadObjects(file)
	if err != nil {
		return err
	}

	configMaps := kopf.For(&corev1.ConfigMap{}).OnCreate("copy", copyConfigMap)
	rights := rights.Options{Name: "copier", ServiceAccount: "copier", Namespace: "copier-system", LeaderElection: true}
	var text bytes.Buffer
	if err := kopf.WriteRights(&text, clientgoscheme.Scheme, rights, configMaps); err != nil {
		return err
	}
	roles, err := olm.ReadObjects(&text)
	if err != nil {
		return err
	}
	return olm.Write(folder, olm.Options{
		Package: "copier", Version: "0.1.0", Channels: []string{"stable"}, Replaces: "copier.v0.0.9",
		Image: "registry.example.com/copier:v0.1.0", Objects: append(objects, roles...),
	})
}

func copyConfigMap(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }
