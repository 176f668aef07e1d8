package clocks

import "time"

const oddStart = 13_579 * time.Nanosecond

// MakeOdd advances the clock of a new testing/synctest bubble to a time with odd nanoseconds. Real clocks never show whole microseconds.
// With whole ones, a test wouldn't notice that a value loses its nanoseconds when it is stored. Other clocks are left alone.
func MakeOdd() {
	if startOfBubbles := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); time.Now().Equal(startOfBubbles) {
		<-time.After(oddStart)
	}
}
