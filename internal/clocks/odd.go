package clocks

import "time"

// oddStart is a time with odd microseconds and odd nanoseconds.
const oddStart = 13_579 * time.Nanosecond

// MakeOdd advances the clock of a new bubble of testing/synctest to a time with odd nanoseconds. A real clock never shows whole microseconds, so a
// test with whole ones would not see that a value loses its nanoseconds when it is stored. For other clocks, MakeOdd does nothing.
func MakeOdd() {
	if startOfBubbles := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); time.Now().Equal(startOfBubbles) {
		<-time.After(oddStart)
	}
}
