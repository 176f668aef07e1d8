package kopftest_test

import (
	"os"
	"testing"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

// cluster is a real API server. It is nil with -short.
var cluster *kopftest.Cluster

func TestMain(m *testing.M) { os.Exit(kopftest.Main(m, &cluster)) }
