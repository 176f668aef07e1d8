package operator

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// A Reservation is something that two operators of the same manager must not both hold: the second one refuses to start. With the same
// finalizer or baseline on one kind, they would overwrite each other's data. With the same peering object, they would pause each other, and
// with the same ring, they would use the same Lease.
type Reservation struct {
	Manager manager.Manager
	Kind    schema.GroupVersionKind
	// Value is the finalizer, the baseline, or the name of the peering object or ring. It must be comparable.
	Value any
}

// reservations holds the reservations of all operators in this process.
var reservations sync.Map

// Reserve makes reservations that hold until release is called. If other operators hold some of them, it makes none and returns those in
// taken.
func Reserve(wanted ...Reservation) (release func(), taken []Reservation) {
	var reserved []Reservation
	release = func() {
		for _, r := range reserved {
			reservations.Delete(r)
		}
	}
	for _, r := range wanted {
		if _, exists := reservations.LoadOrStore(r, true); exists {
			taken = append(taken, r)
		} else {
			reserved = append(reserved, r)
		}
	}
	if len(taken) > 0 {
		release()
		return nil, taken
	}
	return release, nil
}
