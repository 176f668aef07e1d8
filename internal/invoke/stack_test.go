package invoke

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestTrimStack(t *testing.T) {
	// The frames of strings.Map belong to neither the runtime nor the library, like those of a user's packages.
	handler := func(context.Context) error {
		return errors.New(strings.Map(func(rune) rune { panic("oh") }, "x"))
	}
	outcome := progress.Policy{}.Attempt(t.Context(), progress.Record{}, time.Now(), handler)
	panicked, ok := errors.AsType[*progress.PanicError](outcome.Err)
	if !ok {
		t.Fatalf("no panic: %v", outcome.Err)
	}
	full := string(panicked.Stack)
	// A handler is in another module.
	foreign := strings.ReplaceAll(full, modulePath+"internal/invoke.TestTrimStack", "example.com/operator.handle")
	stack := trimStack([]byte(foreign))
	if !strings.HasPrefix(stack, "example.com/operator.handle") || !strings.Contains(stack, "strings.Map") {
		t.Errorf("the stack lacks the frames from the panic to the handler:\n%s", stack)
	}
	if strings.Contains(stack, "recovered") || strings.Contains(stack, "tRunner") {
		t.Errorf("the stack contains frames of the library:\n%s", stack)
	}
	if trimStack([]byte("something else")) != "something else" {
		t.Error("a stack of unknown format is changed")
	}
}
