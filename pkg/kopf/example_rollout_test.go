package kopf_test

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// The new version of provision does more than the last one, so it must be called for the existing databases, too.
func ExampleRevision() {
	databases := kopf.For(&Database{}).
		OnCreateOrUpdate("provision", provision, kopf.Revision(2)). // existing databases need the new provision, too
		OnUpdate("announce", announce)
	_ = databases
}

// A rollout begins with two percent of the databases, and goes on after ten minutes.
func ExampleWithRollout() {
	setup := func(mgr manager.Manager) error {
		databases := kopf.For(&Database{}).OnCreateOrUpdate("provision", provision, kopf.Revision(2))
		return kopf.SetupWithManager(mgr, databases, kopf.WithRollout(rollout.Options{
			Canaries:    0.02,
			Soak:        10 * time.Minute,
			MaxParallel: 5,
			Window:      rollout.Window{From: 22 * time.Hour, To: 5 * time.Hour},
			OptOut:      "kopf-runtime.dev/rollout",
		}))
	}
	_ = setup
}
