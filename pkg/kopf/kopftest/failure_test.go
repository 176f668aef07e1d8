package kopftest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// failureOf runs a function that must fail the test. It returns the failure message, or an empty string.
func failureOf(t *testing.T, fails func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends the goroutine
		defer close(done)
		fails(r)
	}()
	<-done
	return r.said
}

// recorder is a testing.TB that records its failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) + "\n" }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
