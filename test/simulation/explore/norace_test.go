//go:build !race

package explore

// sampled is the number of plans of each scenario without -all.
const sampled = 9
