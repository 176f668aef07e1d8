package progress

import "time"

// Exponential returns a function for BackoffFunc in [Policy]. The delay after the first attempt is base. The delay doubles with each
// attempt, up to limit. If base is not positive, there is no delay.
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
