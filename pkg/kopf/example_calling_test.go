package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/diff"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Tests can call handlers as functions. See docs/testing.md.

func TestProvision(t *testing.T) {
	for name, test := range map[string]struct {
		size    int
		address string
		forGood bool
	}{
		"a size":    {size: 1, address: "10.0.0.1"},
		"no size":   {size: 0, forGood: true},
		"below one": {size: -1, forGood: true},
	} {
		t.Run(name, func(t *testing.T) {
			orders := &Database{}
			orders.Spec.Size = test.size
			err := provision(t.Context(), &DatabaseRequest{Object: orders, Reason: kopf.ReasonCreate})

			if _, forGood := errors.AsType[*progress.PermanentError](err); forGood != test.forGood {
				t.Errorf("got error %v, want a permanent one: %t", err, test.forGood)
			}
			if orders.Status.Address != test.address {
				t.Errorf("got address %q, want %q", orders.Status.Address, test.address)
			}
		})
	}
}

func size(n int64) map[string]any {
	return map[string]any{"spec": map[string]any{"size": n}}
}

func TestAnnounce(t *testing.T) {
	before, after := &Database{}, &Database{}
	before.Spec.Size, after.Spec.Size = 1, 2
	req := &DatabaseRequest{
		Object: after, Old: before, Reason: kopf.ReasonUpdate,
		Diff:    diff.Of(size(1), size(2)),
		Attempt: progress.Attempt{Number: 2, Last: "busy", Started: time.Now().Add(-time.Minute)},
	}
	if err := announce(t.Context(), req); err != nil {
		t.Error(err)
	}
}

func TestBusyClouds(t *testing.T) {
	err := kopf.Temporary(errBusy, 10*time.Second)

	temporary, ok := errors.AsType[*progress.TemporaryError](err)
	if !ok || temporary.Delay != 10*time.Second || !errors.Is(err, errBusy) {
		t.Errorf("got error %#v, want a temporary error with a delay of 10s", err)
	}
}

func ExampleRequest_Result() {
	handler := func(_ context.Context, req *DatabaseRequest) error {
		req.SetResult(map[string]int{"size": req.Object.Spec.Size})
		return nil
	}
	req := &DatabaseRequest{Object: &Database{}}
	fmt.Println(handler(context.Background(), req), req.Result())
	// Output:
	// <nil> map[size:0]
}

func ExampleRequest_OldKnown() {
	handler := func(_ context.Context, req *DatabaseRequest) error {
		if req.Reason == kopf.ReasonUpdate && !req.OldKnown() {
			return nil // the old state was too large to store: handle the whole object as changed
		}
		return nil
	}
	fmt.Println(handler(context.Background(), &DatabaseRequest{Object: &Database{}}))
	// Output:
	// <nil>
}

func TestResults(t *testing.T) {
	req := &DatabaseRequest{Object: &Database{}}
	req.SetResult([]string{"a"})
	if difference := cmp.Diff(any([]any{"a"}), req.Result()); difference != "" {
		t.Error(difference)
	}
}
