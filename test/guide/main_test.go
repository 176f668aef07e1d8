package guide

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "github.com/kopf-runtime/kopf-runtime/examples/18-conditions/api/v1"
	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// cfg is the configuration that envtest.Environment.Start returns.
var cfg *rest.Config

// cluster provides access for the programs that a test starts.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	// Goroutines of managers that have stopped may still read the scheme, so no test changes it later.
	utilruntime.Must(v1.AddToScheme(clientgoscheme.Scheme))
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
	cfg, cluster = cp.Config, cp
	return run()
}
