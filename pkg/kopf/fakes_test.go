package kopf_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// errNoServer is what whoever asks the API server is told.
var errNoServer = errors.New("there is no API server, says the test")

// A fakeManager is a manager without an API server: as far as an operator gets without one.
type fakeManager struct {
	manager.Manager
	requests int
}

func (*fakeManager) GetScheme() *runtime.Scheme { return clientgoscheme.Scheme }
func (*fakeManager) GetClient() client.Client   { return nil }
func (*fakeManager) GetLogger() logr.Logger {
	return funcr.New(func(string, string) {}, funcr.Options{})
}
func (*fakeManager) GetConfig() *rest.Config       { return &rest.Config{Host: "http://nowhere.example.com"} }
func (s *fakeManager) GetHTTPClient() *http.Client { return &http.Client{Transport: s} }

func (s *fakeManager) RoundTrip(*http.Request) (*http.Response, error) {
	s.requests++
	return nil, errNoServer
}

// newOperator is one for config maps, with options.
func newOperator(mgr manager.Manager, opts ...kopf.Option) *kopf.Operator {
	return kopf.New(mgr, append(opts, kopf.For(&corev1.ConfigMap{}).OnEvent("watched", noopConfigMap))...)
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
