package children_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

var (
	config *rest.Config
	k8s    client.Client // client that counts its write requests
	writes atomic.Int64
)

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard()) // the tests ignore warnings of the server
	os.Exit(withControlPlane(m.Run))
}

func withControlPlane(run func() int) int {
	if testing.Short() {
		return run()
	}
	cp, err := controlplane.Start(controlplane.Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = cp.Stop() }()
	config = rest.CopyConfig(cp.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counter{next} })
	if k8s, err = client.New(config, client.Options{}); err != nil {
		fmt.Println(err)
		return 1
	}
	return run()
}

// counter is a transport that counts write requests, including dry runs and failures.
type counter struct{ next http.RoundTripper }

func (c counter) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		writes.Add(1)
	}
	return c.next.RoundTrip(request)
}

// countWrites returns the number of write requests during a call.
func countWrites(call func()) int {
	before := writes.Load()
	call()
	return int(writes.Load() - before)
}

// realOwner creates an owner in a new namespace.
func realOwner(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "children-"}}
	must(t, k8s.Create(t.Context(), namespace))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: namespace.Name, Labels: map[string]string{"app": "db"},
	}}
	must(t, k8s.Create(t.Context(), owner))
	return owner
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
