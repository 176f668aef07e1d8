package statuspage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kopf-runtime/kopf-runtime/internal/invoke"
	"github.com/kopf-runtime/kopf-runtime/internal/parts/statuspage"
	"github.com/kopf-runtime/kopf-runtime/pkg/explain"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var databases = schema.GroupKind{Group: "shop.example.com", Kind: "Database"}

var succeeded = progress.Outcome{Success: true, Final: true}

// begin begins an attempt of a handler for an object, whose name is its uid, too.
func begin(a *statuspage.Attempts, name, handler string, number int) (end func(progress.Outcome)) {
	return beginFor(a, name, types.UID(name), handler, number)
}

func beginFor(a *statuspage.Attempts, name string, uid types.UID, handler string, number int) (end func(progress.Outcome)) {
	_, end = a.Begin(context.Background(), invoke.AttemptInfo{
		Kind: databases.WithVersion("v1"), Object: types.NamespacedName{Name: name}, UID: uid, Handler: handler, Attempt: progress.Attempt{Number: number - 1},
	})
	return end
}

// summaries describes attempts, such as "resize 2 failed".
func summaries(a *statuspage.Attempts, name string) (all []string) {
	for _, attempt := range a.Of(databases, types.NamespacedName{Name: name}) {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", attempt.Handler, attempt.Number, attempt.State, attempt.Error)))
	}
	return all
}

func TestAttempts_RecordsBeginAndEnd(t *testing.T) {
	a := &statuspage.Attempts{}
	end := begin(a, "orders", "resize", 1)
	if got := a.Of(databases, types.NamespacedName{Name: "orders"}); len(got) != 1 || got[0].State != explain.Active || got[0].Started.IsZero() || !got[0].Ended.IsZero() {
		t.Errorf("a running attempt is %+v", got)
	}
	end(progress.Outcome{Err: errors.New("the quota is exhausted")})
	begin(a, "orders", "resize", 2)(succeeded)
	if got, want := summaries(a, "orders"), []string{"resize 1 retrying the quota is exhausted", "resize 2 succeeded"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := a.Of(databases, types.NamespacedName{Name: "orders"}); got[0].Ended.Before(got[0].Started) || got[1].Ended.IsZero() {
		t.Errorf("the ends are wrong: %+v", got)
	}
	if got := summaries(a, "carts"); got != nil {
		t.Errorf("another object has the attempts %q", got)
	}
}

func TestAttempts_RecordsStates(t *testing.T) {
	for want, outcome := range map[explain.State]progress.Outcome{
		explain.Succeeded: succeeded,
		explain.Stopped:   {Interrupted: true},
		explain.Waiting:   {Waiting: true},
		explain.Failed:    {Final: true},
		explain.Retrying:  {},
	} {
		a := &statuspage.Attempts{}
		begin(a, "orders", "resize", 1)(outcome)
		if got := a.Of(databases, types.NamespacedName{Name: "orders"})[0].State; got != want {
			t.Errorf("the state after %+v is %s, want %s", outcome, got, want)
		}
	}
}

func TestAttempts_KeepsRareHandlers(t *testing.T) {
	a := &statuspage.Attempts{}
	begin(a, "orders", "resize", 1)(progress.Outcome{Err: errors.New("full")})
	for n := range 100 {
		begin(a, "orders", "health", n+1)(succeeded)
	}
	got := summaries(a, "orders")
	if len(got) != 20 || got[0] != "resize 1 retrying full" || got[1] != "health 82 succeeded" || got[19] != "health 100 succeeded" {
		t.Errorf("got %d attempts: %q", len(got), got)
	}
}

func TestAttempts_ForgetsReplacedObjects(t *testing.T) {
	a := &statuspage.Attempts{}
	end := beginFor(a, "orders", "1", "old", 1)
	beginFor(a, "orders", "2", "new", 1)
	end(succeeded) // it does not change the attempts of the new object
	if got, want := summaries(a, "orders"), []string{"new 1 active"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAttempts_KeepsTheMostRecentObjects(t *testing.T) {
	a := &statuspage.Attempts{}
	for i := range 10_000 {
		begin(a, fmt.Sprint(i), "make", 1)(succeeded)
	}
	begin(a, "0", "make", 2)(succeeded)
	begin(a, "10000", "make", 1)(succeeded)
	for name, want := range map[string]int{"0": 2, "1": 0, "2": 1, "10000": 1} {
		if got := summaries(a, name); len(got) != want {
			t.Errorf("the object %s has the attempts %q, want %d", name, got, want)
		}
	}
}

func TestAttempts_CutsErrors(t *testing.T) {
	a := &statuspage.Attempts{}
	begin(a, "orders", "make", 1)(progress.Outcome{Final: true, Err: errors.New(strings.Repeat("x", 255) + "üüü")})
	if got, want := summaries(a, "orders")[0], "make 1 failed "+strings.Repeat("x", 255)+"…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkAttempts(b *testing.B) {
	a := &statuspage.Attempts{}
	for b.Loop() {
		begin(a, "orders", "make", 1)(succeeded)
	}
}
