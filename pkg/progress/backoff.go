package progress

import "time"

// Exponential returns a BackoffFunc for a [Policy]. The delay is base after the first attempt and doubles with each attempt, up to limit.
// If base isn't positive, there is no delay.
func Exponential(base, limit time.Duration) func(Attempt, error) time.Duration {
	return func(a Attempt, _ error) time.Duration {
		if base <= 0 {
			return 0
		}
		pause := base
		for range a.Number {
			if pause *= 2; pause >= limit || pause <= 0 {
				return limit
			}
		}
		return min(pause, limit)
	}
}
