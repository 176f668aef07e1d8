package progress

import (
	"math/rand/v2"
	"slices"
)

// A Lifecycle chooses the handlers to call in this reconcile. It receives the ids of the due handlers in the order of registration, and
// returns those to call, in order. The others stay due. The function record returns the record of a handler, or the zero [Record] for an
// unknown id.
//
// Equivalent in kopf: lifecycle=, kopf.lifecycles.
type Lifecycle func(due []string, record func(id string) Record) []string

// AllAtOnce chooses all due handlers, in order. It is the default of this library.
func AllAtOnce(due []string, _ func(string) Record) []string { return due }

// OneByOne chooses the first due handler. A failing handler blocks those after it, except during its delay.
func OneByOne(due []string, _ func(string) Record) []string { return due[:min(1, len(due))] }

// Asap chooses the due handler with the fewest attempts. It is the default of kopf.
func Asap(due []string, record func(id string) Record) []string {
	if len(due) == 0 {
		return due
	}
	return []string{slices.MinFunc(due, func(a, b string) int {
		return record(a).Retries - record(b).Retries
	})}
}

// Shuffled chooses all due handlers, in random order.
func Shuffled(due []string, _ func(string) Record) []string {
	due = slices.Clone(due)
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	return due
}

// Randomized chooses one random due handler.
func Randomized(due []string, record func(id string) Record) []string {
	return OneByOne(Shuffled(due, record), record)
}
