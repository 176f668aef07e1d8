package kopftest_test

import (
	"fmt"
	"runtime"
	"testing"
)

// failure runs something that is to fail a test, and returns what that says; empty if it does not fail.
func failure(t *testing.T, fails func(testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // Fatalf ends its goroutine
		defer close(done)
		fails(r)
	}()
	<-done
	return r.said
}

// A recorder is a test that remembers why it has failed.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) { r.said += fmt.Sprintf(format, args...) + "\n" }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
