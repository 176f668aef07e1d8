package validation

import (
	"fmt"
	"time"
)

// MinDuration is the shortest positive duration that [DurationUnit] accepts. Anything shorter is probably a number without a unit.
const MinDuration = time.Millisecond

// DurationUnit returns an error for a positive duration that is probably a number without a unit, such as 5 instead of 5*time.Second.
func DurationUnit(d time.Duration) error {
	switch {
	case d <= 0 || d >= MinDuration:
		return nil
	case d < time.Microsecond:
		return fmt.Errorf("%s; durations need a unit: %d*time.Second", d, d)
	default:
		return fmt.Errorf("%s, which is less than %s; durations need a unit, such as %d*time.Second", d, MinDuration, d/time.Microsecond)
	}
}
