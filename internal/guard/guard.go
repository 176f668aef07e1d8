package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// ErrExited is the Value of an [Error] if the function called [runtime.Goexit].
var ErrExited = errors.New("runtime.Goexit was called, for example by FailNow of package testing: return an error instead")

// An Error is a fault of a function.
type Error struct {
	// Function describes the function, such as KindsFunc. It is empty if the caller names the function in a different way.
	Function string
	// Value is the value of the panic, or [ErrExited].
	Value any
	// Stack is the stack at the fault.
	Stack []byte
}

func (e *Error) Error() string {
	switch {
	case e.Function == "":
		return Text(e.Value)
	case e.Value == any(ErrExited):
		return e.Function + ": " + ErrExited.Error()
	default:
		return ShortenText(fmt.Sprintf("%s panicked: %v", e.Function, e.Value), MaxTextBytes)
	}
}

// Text describes the value of an [Error].
func Text(value any) string {
	if value == any(ErrExited) {
		return ErrExited.Error()
	}
	return ShortenText(fmt.Sprintf("panic: %v", value), MaxTextBytes)
}

// Exited returns the error for a function that called [runtime.Goexit]. Call it in a deferred function, while the stack still contains the
// function.
func Exited(function string) *Error { return &Error{function, ErrExited, debug.Stack()} }

func panicked(function string, value any) *Error {
	if known, ok := value.(*Error); ok { // Value has panicked with it
		return known
	}
	return &Error{function, value, debug.Stack()}
}

// Catch calls fn and returns its error. If fn panics, Catch returns an [Error].
func Catch(function string, fn func() error) (err error) {
	defer func() {
		if value := recover(); value != nil { //nolint:forbidigo // the only place
			err = panicked(function, value)
		}
	}()
	err = fn()
	if v := reflect.ValueOf(err); v.IsValid() && v.Kind() == reflect.Pointer && v.IsNil() {
		// A nil pointer in an error isn't equal to nil, and calling its methods would panic. Return a real error instead.
		return fmt.Errorf("handler returned a nil %T as its error: declare the variable as error, or return nil for success", err)
	}
	if err != nil {
		_ = err.Error() // the error may be of a user's type, whose methods can fault as well
	}
	return err
}

// Call calls fn in a separate goroutine, waits for it, and returns its error. If fn panics or calls [runtime.Goexit], Call returns an
// [Error].
func Call(function string, fn func() error) error {
	c := call{function: function, fn: fn}
	c.running.Add(1)
	go c.run()
	c.running.Wait()
	return c.err
}

type call struct {
	function string
	fn       func() error
	err      error
	running  sync.WaitGroup
}

func (c *call) run() {
	returned := false
	defer func() {
		if !returned {
			c.err = Exited(c.function)
		}
		c.running.Done()
	}()
	c.err = Catch(c.function, c.fn)
	returned = true
}

// Value is like [Call], but for a function that returns a value and no error. If fn panics or calls [runtime.Goexit], Value panics with an
// [Error], which [Catch] returns unchanged.
func Value[T any](function string, fn func() T) (value T) {
	if err := Call(function, func() error { value = fn(); return nil }); err != nil {
		panic(err)
	}
	return value
}

// WithStack adds the stack of an [Error] to a logger. For other errors, it returns the logger unchanged.
func WithStack(logger logr.Logger, err error) logr.Logger {
	if trace := Trace(err); trace != "" {
		return logger.WithValues("stack", trace)
	}
	return logger
}

// Trace returns the part of the stack that matters in a log line: the frames between the fault and the library's function that called the
// user's. It is empty if the error isn't an [Error].
func Trace(err error) string {
	if fault, ok := errors.AsType[*Error](err); ok {
		return TrimStack(fault.Stack)
	}
	return ""
}

// modulePath starts the package paths of this library.
const modulePath = "github.com/kopf-runtime/kopf-runtime/"

// TrimStack removes the frames of the library and of the runtime from the stack of an [Error]. If it doesn't know the format, it returns
// the stack unchanged.
func TrimStack(stack []byte) string {
	lines := strings.Split(strings.TrimSpace(string(stack)), "\n")
	first := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") || strings.HasPrefix(line, "runtime.Goexit(") {
			first = i + 2 // the next line is the function's file
		}
	}
	last := first
	for last < len(lines) && !isLibraryFrame(lines[last]) {
		last++
	}
	if last == first {
		return strings.TrimSpace(string(stack))
	}
	return strings.Join(lines[first:last], "\n")
}

func isLibraryFrame(line string) bool {
	return strings.HasPrefix(line, modulePath+"pkg/") || strings.HasPrefix(line, modulePath+"internal/")
}
