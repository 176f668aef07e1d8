package guide

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/internal/controlplane"
)

// cfg is the configuration that envtest.Environment.Start returns.
var cfg *rest.Config

// cluster provides access for the programs that a test starts.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
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
