package bench

import (
	"fmt"
	"slices"
)

// A budget is the limit of a figure.
type budget struct {
	text  string
	exact bool // for a count, which is the same on any machine
	met   func(values, ratios []float64) bool
}

var open = budget{text: "-", met: func(_, _ []float64) bool { return true }}

// exactly returns a budget for a count, in every round.
func exactly(want float64) budget {
	return budget{text: fmt.Sprintf("= %g", want), exact: true, met: func(values, _ []float64) bool {
		return !slices.ContainsFunc(values, func(is float64) bool { return is != want })
	}}
}

// below returns a budget for the figure itself.
func below(limit float64) budget {
	return budget{text: fmt.Sprintf("<= %g", limit), met: func(values, _ []float64) bool { return median(values) <= limit }}
}

// atLeast and atMost return budgets for the ratio to the figure of the other side.
func atLeast(ratio float64) budget {
	return budget{text: fmt.Sprintf(">= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) >= ratio }}
}

func atMost(ratio float64) budget {
	return budget{text: fmt.Sprintf("<= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) <= ratio }}
}
