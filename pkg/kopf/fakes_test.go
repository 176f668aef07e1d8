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
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

// errNoServer is the error of each request.
var errNoServer = errors.New("the test has no API server")

// fakeManager is a manager without an API server. It counts requests and fails them.
type fakeManager struct {
	manager.Manager
	requests int
}

func (*fakeManager) GetScheme() *runtime.Scheme { return clientgoscheme.Scheme }
func (*fakeManager) GetControllerOptions() config.Controller {
	return config.Controller{}
}
func (*fakeManager) GetClient() client.Client { return nil }
func (*fakeManager) GetLogger() logr.Logger {
	return funcr.New(func(string, string) {}, funcr.Options{})
}
func (*fakeManager) GetConfig() *rest.Config       { return &rest.Config{Host: "http://nowhere.example.com"} }
func (s *fakeManager) GetHTTPClient() *http.Client { return &http.Client{Transport: s} }

func (s *fakeManager) RoundTrip(*http.Request) (*http.Response, error) {
	s.requests++
	return nil, errNoServer
}

// newOperator returns an operator for config maps with the given options.
func newOperator(mgr manager.Manager, opts ...kopf.Option) *kopf.Operator {
	return kopf.New(mgr, append(opts, kopf.For(&corev1.ConfigMap{}).OnEvent("watched", noopConfigMap))...)
}

func equal(t *testing.T, subject string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", subject, diff)
	}
}
