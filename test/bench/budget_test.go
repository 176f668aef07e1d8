package bench

import (
	"fmt"
	"slices"
)

// budget is the required value or range of a figure.
type budget struct {
	text  string
	exact bool // the figure is a count that does not depend on the machine
	met   func(values, ratios []float64) bool
}

// noBudget marks figures without a required value.
var noBudget = budget{text: "-", met: func(_, _ []float64) bool { return true }}

// exactly returns a budget for a count that must equal want in every round.
func exactly(want float64) budget {
	return budget{text: fmt.Sprintf("= %g", want), exact: true, met: func(values, _ []float64) bool {
		return !slices.ContainsFunc(values, func(value float64) bool { return value != want })
	}}
}

// below returns a budget that limits the median of the figure. The limit itself is allowed.
func below(limit float64) budget {
	return budget{text: fmt.Sprintf("<= %g", limit), met: func(values, _ []float64) bool { return median(values) <= limit }}
}

// atLeast returns a minimum for the median ratio of the subject to the reference.
func atLeast(ratio float64) budget {
	return budget{text: fmt.Sprintf(">= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) >= ratio }}
}

// atMost returns a maximum for the median ratio of the subject to the reference.
func atMost(ratio float64) budget {
	return budget{text: fmt.Sprintf("<= %g x", ratio), met: func(_, ratios []float64) bool { return median(ratios) <= ratio }}
}
