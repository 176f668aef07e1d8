package kopf_test

import (
	"context"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

func login(context.Context) error                 { return nil }
func logout(context.Context) error                { return nil }
func queueLength(context.Context) (any, error)    { return 0, nil }
func certificateAge(context.Context) (any, error) { return 0, nil }

func ExampleOnStartup() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases,
		kopf.OnStartup("login", login, kopf.Retries(10), kopf.Backoff(5*time.Second)),
		kopf.OnCleanup("logout", logout, kopf.Timeout(10*time.Second)))
}

func ExampleOnCleanup() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	_ = kopf.SetupWithManager(mgr, databases,
		kopf.OnCleanup("logout", logout, kopf.Retries(1))) // the manager waits at most for its GracefulShutdownTimeout
}

func ExampleOnProbe() {
	databases := kopf.For(&Database{}).OnCreate("provision", provision)

	// GET /kopf/probes on the metrics server: {"queue":0,"certificate":0}
	_ = kopf.SetupWithManager(mgr, databases,
		kopf.OnProbe("queue", queueLength),
		kopf.OnProbe("certificate", certificateAge))
}
