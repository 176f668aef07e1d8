package peering

import (
	"errors"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/clocks"
)

const (
	// suspensionCheckInterval is how often we check whether the machine was suspended, because timers don't run during a suspension.
	suspensionCheckInterval = time.Second
	// suspensionThreshold is how much the monotonic clock and the wall clock may differ. It must be shorter than the time between the
	// renewal of a record and its expiry.
	suspensionThreshold = 3 * time.Second
)

// errSuspended pauses the operator after a suspension until its record is renewed.
var errSuspended = errors.New("the machine was suspended or its clock was set forward: peers may consider this operator dead")

func (p *Peering) readClocks() clocks.Reading { return clocks.Read(p.wallClock) }

// wasSuspended reports whether the machine was suspended between two readings.
func wasSuspended(since, now clocks.Reading) bool {
	return now.Wall.Sub(since.Wall)-now.Monotonic.Sub(since.Monotonic) > suspensionThreshold
}
