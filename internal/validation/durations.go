package validation

import (
	"fmt"
	"time"
)

// Shortest is the shortest positive duration that a declaration may have. A shorter one is a number without its unit.
const MinDuration = time.Millisecond

// Duration returns an error for a positive duration that is too short to be meant: 5 instead of 5*time.Second.
func Duration(d time.Duration) error {
	switch {
	case d <= 0 || d >= MinDuration:
		return nil
	case d < time.Microsecond:
		return fmt.Errorf("%s; durations need a unit: %d*time.Second", d, d)
	default:
		return fmt.Errorf("%s, which is less than %s; durations need a unit, such as %d*time.Second", d, MinDuration, d/time.Microsecond)
	}
}
