package progress_test

import (
	"math"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestExponential(t *testing.T) {
	for _, test := range []struct {
		name        string
		base, limit time.Duration
		attempt     int
		want        time.Duration
	}{
		{"first attempt", time.Second, time.Minute, 0, time.Second},
		{"fourth attempt", time.Second, time.Minute, 3, 8 * time.Second},
		{"the limit", time.Second, time.Minute, 100, time.Minute},
		{"a base above the limit", time.Hour, time.Minute, 0, time.Minute},
		{"an overflow", math.MaxInt64 / 2, math.MaxInt64, 2, math.MaxInt64},
		{"no base, first attempt", 0, time.Minute, 0, 0},
		{"no base, second attempt", 0, time.Minute, 1, 0},
		{"a negative base", -time.Second, time.Minute, 1, 0},
	} {
		if got := progress.Exponential(test.base, test.limit)(progress.Attempt{Number: test.attempt}, nil); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}
