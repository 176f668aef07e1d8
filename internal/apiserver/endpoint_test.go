package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kopf-runtime/kopf-runtime/internal/apiserver"
	"github.com/kopf-runtime/kopf-runtime/internal/kinds"
)

// configOf returns the configuration of a client for an endpoint.
func configOf(t *testing.T, e *apiserver.Endpoint) *rest.Config {
	t.Helper()
	text, err := e.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Clients in other processes need the token. A watch delivers each change at once, and ends with the endpoint.
func TestEndpoint(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	e, err := apiserver.New(apiserver.FromScheme(clientgoscheme.Scheme)...).Listen("127.0.0.1:0", func(x apiserver.Exchange) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, x.Method+" "+x.Path)
	})
	if err != nil {
		t.Fatal(err)
	}
	config := configOf(t, e)
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	w, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		select {
		case event := <-w.ResultChan():
			if got := event.Object.(*corev1.ConfigMap).Name; got != name {
				t.Errorf("the watch has delivered %s, want %s", got, name)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the watch has delivered nothing")
		}
	}
	stranger := rest.AnonymousClientConfig(config)
	if _, err := kubernetes.NewForConfigOrDie(stranger).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("without a token, got %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	select {
	case _, open := <-w.ResultChan():
		if open {
			t.Error("the watch has delivered something after the end")
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch has not ended")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "POST /api/v1/namespaces/default/configmaps"; !slices.Equal(seen, []string{want, want}) {
		t.Errorf("the observer has seen %v", seen)
	}
}

// Without its schema, each start of an operator would wait for ten seconds, because a real server publishes the schemas of new kinds late.
func TestEndpoint_PublishesSchemas(t *testing.T) {
	widgets := apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: "widgets"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "string"}},
			}},
		}},
	}}
	e, err := apiserver.New(append(apiserver.FromScheme(clientgoscheme.Scheme), apiserver.FromCRDs(&widgets)...)...).Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	config := configOf(t, e)
	client := discovery.NewDiscoveryClientForConfigOrDie(config)
	published, err := kinds.AwaitSchema(t.Context(), client, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"})
	if err != nil || published.Properties["spec"].Type != "string" {
		t.Errorf("the schema of Widget is %+v, %v", published, err)
	}
	published, err = kinds.AwaitSchema(t.Context(), client, corev1.SchemeGroupVersion.WithKind("Pod"))
	if err != nil || published.XPreserveUnknownFields == nil || !*published.XPreserveUnknownFields {
		t.Errorf("the schema of Pod is %+v, %v; it should allow all fields", published, err)
	}
}

// The certificate is only for this machine, and another endpoint cannot have the same port.
func TestEndpoint_PortIsTaken(t *testing.T) {
	server := apiserver.New()
	e, err := server.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	address := e.Config.Host[len("https://"):]
	if _, err := server.Listen(address, nil); err == nil {
		t.Error("two endpoints have the same port")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(e.Config.CAData) {
		t.Fatal("the kubeconfig has no certificate")
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	response, err := http.Get("http://" + address) //nolint:noctx // it fails
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode == http.StatusOK {
			t.Error("the server answers without TLS")
		}
	}
}
