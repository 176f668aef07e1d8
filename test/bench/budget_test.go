package bench

import (
	"fmt"
	"slices"
)

// A budget is what a figure is held to.
type budget struct {
	text  string
	exact bool // it is about a count, which is the same on any machine
	met   func(values, ratios []float64) bool
}

var open = budget{text: "-", met: func(_, _ []float64) bool { return true }}

// exactly is for counts: in every round.
func exactly(want float64) budget {
	return budget{text: fmt.Sprintf("= %g", want), exact: true, met: func(values, _ []float64) bool {
		return !slices.ContainsFunc(values, func(is float64) bool { return is != want })
	}}
}

// below is for the figure by itself.
func below(limit float64) budget {
	return budget{text: fmt.Sprintf("<= %g", limit), met: func(values, _ []float64) bool { return median(values) <= limit }}
}

// atLeast and atMost are for the ratio to the figure of the other side.
func atLeast(ratio float64) budget {
	return budget{text: fmt.Sprintf(">= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) >= ratio }}
}

func atMost(ratio float64) budget {
	return budget{text: fmt.Sprintf("<= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) <= ratio }}
}
