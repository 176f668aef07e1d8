package execution

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestTheStackOfAPanicEndsWhereTheHandlerBegins(t *testing.T) {
	// The handler stands in for one of a user: the runtime's functions are nobody's of ours.
	handler := func(context.Context) error {
		return errors.New(strings.Map(func(rune) rune { panic("oh") }, "x"))
	}
	outcome := progress.Policy{}.Attempt(t.Context(), progress.Record{}, time.Now(), handler)
	panicked, ok := errors.AsType[*progress.PanicError](outcome.Err)
	if !ok {
		t.Fatalf("no panic: %v", outcome.Err)
	}
	full := string(panicked.Stack)
	// As it would be in another module.
	foreign := strings.ReplaceAll(full, modulePath+"internal/execution.TestTheStack", "example.com/operator.handle")
	stack := trimStack([]byte(foreign))
	if !strings.HasPrefix(stack, "example.com/operator.handle") || !strings.Contains(stack, "strings.Map") {
		t.Errorf("it should lead from the panic to the handler:\n%s", stack)
	}
	if strings.Contains(stack, "recovered") || strings.Contains(stack, "tRunner") {
		t.Errorf("it should not show how the handler was called:\n%s", stack)
	}
	if trimStack([]byte("something else")) != "something else" {
		t.Error("what is not understood should be kept")
	}
}
