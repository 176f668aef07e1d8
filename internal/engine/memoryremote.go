package engine

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// memoryRemote keeps baselines and pins for a kind whose handlers all keep their records in memory. After a restart, every object is new.
type memoryRemote struct {
	snapshots keyedMap[types.UID, progress.Snapshot]
}

// Load implements [progress.Remote].
func (m *memoryRemote) Load(_ context.Context, obj client.Object) (progress.Snapshot, error) {
	return m.snapshots.Get(obj.GetUID()), nil
}

// Save implements [progress.Remote]. It doesn't check for conflicts, because only the object's worker calls it.
func (m *memoryRemote) Save(_ context.Context, obj client.Object, snapshot progress.Snapshot) (string, error) {
	if len(snapshot.Data) == 0 {
		m.Forget(obj.GetUID())
		return "", nil
	}
	last, _ := strconv.Atoi(snapshot.Version)
	snapshot.Version = strconv.Itoa(last + 1)
	m.snapshots.Set(obj.GetUID(), snapshot)
	return snapshot.Version, nil
}

// Forget implements [progress.Forgetter].
func (m *memoryRemote) Forget(uid types.UID) { m.snapshots.Take(uid) }
