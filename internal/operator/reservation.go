package operator

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// A Reservation is exclusive: an operator cannot start while another operator of the same manager has an equal reservation. Two operators with the same
// finalizer or baseline on one kind would overwrite each other's data. Two operators with the same peering object would pause each other. Two operators in the
// same ring would use the same Lease.
type Reservation struct {
	Manager manager.Manager
	Kind    schema.GroupVersionKind
	// Value is the finalizer, the baseline, or the name of the peering object or of the ring. It must be comparable.
	Value any
}

// reservations contains the reservations of all operators of this process.
var reservations sync.Map

// Reserve makes reservations until release is called. If other operators have some of them, it makes none, and returns these.
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
