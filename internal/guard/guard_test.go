package guard_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

var errFailed = errors.New("failed")

func TestCall(t *testing.T) {
	for _, test := range []struct {
		name, function string
		fn             func() error
		want           string // text of the error
		is             error
		value          any // of the fault; nil for other errors
	}{
		{name: "success", fn: func() error { return nil }},
		{name: "nil pointer", fn: func() error { var err *guard.Error; return err }, want: "handler returned a nil *guard.Error as its error"},
		{name: "panic of an error", fn: func() error { return faultyError{func() { panic("oh") }} }, want: "panic: oh", value: "oh"},
		{name: "exit of an error", fn: func() error { return faultyError{runtime.Goexit} }, want: guard.ErrExited.Error(), value: guard.ErrExited},
		{name: "error", fn: func() error { return errFailed }, want: "failed", is: errFailed},
		{name: "panic", fn: func() error { panic("oh") }, want: "panic: oh", value: "oh"},
		{name: "panic of a named function", function: "When", fn: func() error { panic("oh") }, want: "When panicked: oh", value: "oh"},
		{name: "exit", fn: func() error { runtime.Goexit(); return nil }, want: guard.ErrExited.Error(), value: guard.ErrExited},
		{
			name: "exit of a named function", function: "When", fn: func() error { runtime.Goexit(); return nil },
			want: "When: " + guard.ErrExited.Error(), value: guard.ErrExited,
		},
		{name: "exit while a panic is handled", fn: func() error { defer runtime.Goexit(); panic("oh") }, want: guard.ErrExited.Error(), value: guard.ErrExited},
		{name: "value that cannot be compared", fn: func() error { panic([]int{1}) }, want: "panic: [1]", value: []int{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // waits for the goroutines
				err := guard.Call(test.function, test.fn)
				switch text := textOf(err); {
				case !strings.HasPrefix(text, test.want) || text != "" && test.want == "":
					t.Errorf("got the error %q, want %q", text, test.want)
				case test.is != nil && !errors.Is(err, test.is):
					t.Errorf("got the error %v, want %v", err, test.is)
				}
				if fault, ok := errors.AsType[*guard.Error](err); ok != (test.value != nil) {
					t.Errorf("fault: %t, want %t", ok, test.value != nil)
				} else if ok && !strings.Contains(guard.Trace(fault), "guard_test.") {
					t.Errorf("the function is missing in the stack:\n%s", fault.Stack)
				}
			})
		})
	}
}

type faultyError struct{ fault func() }

func (e faultyError) Error() string { e.fault(); return "failed" }

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCatch(t *testing.T) {
	if err := guard.Catch("When", func() error { panic("oh") }); textOf(err) != "When panicked: oh" || !strings.Contains(guard.Trace(err), "TestCatch") {
		t.Errorf("got the error %v with the stack\n%s", err, guard.Trace(err))
	}
	if err := guard.Catch("When", func() error { return errFailed }); err != errFailed { //nolint:errorlint // the same error
		t.Errorf("got the error %v, want it unchanged", err)
	}
}

// FailNow in a function ends the goroutine of the caller, as in a test without the library.
func TestCatch_PassesExit(t *testing.T) {
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		_ = guard.Catch("When", func() error { runtime.Goexit(); return nil })
		returned = true
	}()
	if <-ended; returned {
		t.Error("Catch has returned")
	}
}

func TestValue(t *testing.T) {
	if got := guard.Value("When", func() int { return 3 }); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
	for name, fault := range map[string]func() int{
		"When panicked: oh":                func() int { panic("oh") },
		"When: " + guard.ErrExited.Error(): func() int { runtime.Goexit(); return 1 },
	} {
		err := guard.Catch("the filters", func() error { guard.Value("When", fault); return nil })
		if textOf(err) != name || !strings.Contains(guard.Trace(err), "guard_test.TestValue.") {
			t.Errorf("got the error %q, want %q with the function in the stack:\n%s", err, name, guard.Trace(err))
		}
	}
}

func TestTrimStack(t *testing.T) {
	for name, fault := range map[string]func(rune) rune{
		"a panic": func(rune) rune { panic("oh") },
		"an exit": func(rune) rune { runtime.Goexit(); return 0 },
	} {
		// The frames of strings.Map belong to neither the runtime nor the library, like those of a user's packages.
		err := guard.Call("", func() error { return errors.New(strings.Map(fault, "x")) })
		full, _ := errors.AsType[*guard.Error](err)
		// The functions of users are in other modules.
		foreign := strings.ReplaceAll(string(full.Stack), "github.com/kopf-runtime/kopf-runtime/internal/guard_test.", "example.com/operator.")
		stack := guard.TrimStack([]byte(foreign))
		if !strings.HasPrefix(stack, "example.com/operator.TestTrimStack") || !strings.Contains(stack, "strings.Map") {
			t.Errorf("%s: the stack lacks the frames from the fault to the function of the user:\n%s", name, stack)
		}
		if strings.Contains(stack, "guard.") || strings.Contains(stack, "runtime.") {
			t.Errorf("%s: the stack contains frames of the library:\n%s", name, stack)
		}
	}
	if guard.TrimStack([]byte("something else")) != "something else" {
		t.Error("a stack of unknown format is changed")
	}
	if trace := guard.Trace(errFailed); trace != "" {
		t.Errorf("an error has the stack %q", trace)
	}
}

func BenchmarkCall(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_ = guard.Call("", func() error { return nil })
	}
}
