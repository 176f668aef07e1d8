package progress

import (
	"math/rand/v2"
	"slices"
)

// A Lifecycle picks, from the handlers that are due, those to call in this pass, in order. The due
// ones come in the order of their registration. What it leaves out stays due. record tells how far
// a handler is, due or not; that of an id without a record is the zero [Record].
//
// kopf: lifecycle=, kopf.lifecycles.
type Lifecycle func(due []string, record func(id string) Record) []string

// AllAtOnce calls all that are due, one after the other. The default of this library.
func AllAtOnce(due []string, _ func(string) Record) []string { return due }

// OneByOne calls the first that is due: a failing one is passed over only while it is delayed.
func OneByOne(due []string, _ func(string) Record) []string { return due[:min(1, len(due))] }

// Asap calls one, that with the fewest attempts so far. The default of kopf.
func Asap(due []string, record func(id string) Record) []string {
	if len(due) == 0 {
		return due
	}
	return []string{slices.MinFunc(due, func(a, b string) int {
		return record(a).Retries - record(b).Retries
	})}
}

// Shuffled calls all, in a random order.
func Shuffled(due []string, _ func(string) Record) []string {
	due = slices.Clone(due)
	rand.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	return due
}

// Randomized calls one, chosen by chance.
func Randomized(due []string, record func(id string) Record) []string {
	return OneByOne(Shuffled(due, record), record)
}
