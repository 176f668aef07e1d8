//go:build race

package explore

// sampled is the number of plans of each scenario without -all. With the race detector, they are about seven times slower.
const sampled = 3
