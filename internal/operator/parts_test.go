package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/kopf-runtime/kopf-runtime/internal/operator"
)

// journal records what happens, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.lines, want) {
		t.Errorf("what happened: %q, want %q", j.lines, want)
	}
}

// part returns a part that runs until its context is cancelled.
func (j *journal) part(name string) operator.Part {
	return operator.Part{Name: name, Open: func(context.Context) (operator.Running, error) {
		j.note("open " + name)
		return operator.Running{
			Run: func(ctx context.Context) error {
				<-ctx.Done()
				j.note("end " + name)
				return nil
			},
			Close: func() { j.note("close " + name) },
		}, nil
	}}
}

func TestRun_OpensInOrderAndClosesInReverse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		peers := j.part("peers")
		open := peers.Open
		peers.Open = func(ctx context.Context) (operator.Running, error) {
			one, err := open(ctx)
			one.Last = true
			return one, err
		}
		nothing := operator.Part{Name: "nothing", Open: func(context.Context) (operator.Running, error) { return operator.Running{}, nil }}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		if err := operator.Run(ctx, logr.Discard(), []operator.Part{j.part("cache"), peers, nothing}); err != nil {
			t.Errorf("Run = %v", err)
		}
		j.expect(t, "open cache", "open peers", "end cache", "end peers", "close peers", "close cache")
	})
}

// A part that cannot be opened, or fails while it runs, ends the others.
func TestRun_Failures(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		bad  operator.Part
		want string // the error
		runs bool   // the bad part has opened
	}{
		"an error at the start": {operator.Part{Open: func(context.Context) (operator.Running, error) { return operator.Running{}, refused }}, "refused", false},
		"a panic at the start":  {operator.Part{Open: func(context.Context) (operator.Running, error) { panic("oh") }}, "the start of bad panicked: oh", false},
		"an error later": {operator.Part{Open: func(context.Context) (operator.Running, error) {
			return operator.Running{Run: func(context.Context) error { return refused }}, nil
		}}, "refused", true},
		"a panic later": {operator.Part{Open: func(context.Context) (operator.Running, error) {
			return operator.Running{Run: func(context.Context) error { panic("oh") }}, nil
		}}, "bad panicked: oh", true},
		"a panic of a last part": {operator.Part{Open: func(context.Context) (operator.Running, error) {
			return operator.Running{Last: true, Run: func(context.Context) error { panic("oh") }}, nil
		}}, "bad panicked: oh", true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := &journal{}
				test.bad.Name = "bad"
				err := operator.Run(t.Context(), logr.Discard(), []operator.Part{j.part("cache"), test.bad, j.part("controllers")})
				if err == nil || err.Error() != test.want {
					t.Errorf("Run = %v, want %s", err, test.want)
				}
				if !test.runs {
					j.expect(t, "open cache", "close cache")
					return
				}
				j.mu.Lock()
				lines := strings.Join(j.lines, ", ")
				j.mu.Unlock()
				if !strings.HasPrefix(lines, "open cache, open controllers, end c") || !strings.HasSuffix(lines, ", close controllers, close cache") {
					t.Errorf("what happened: %s", lines)
				}
			})
		})
	}
}

// The log names a part that does not open. When the operator is stopped, the part must return.
func TestRun_NamesPartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{}
		hangs := operator.Part{Name: "peers", Open: func(ctx context.Context) (operator.Running, error) {
			<-ctx.Done()
			return operator.Running{}, ctx.Err()
		}}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, stop)
		log := funcr.New(func(_, args string) { j.note(args) }, funcr.Options{})
		if err := operator.Run(ctx, log, []operator.Part{hangs}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		j.expect(t, fmt.Sprintf(`"level"=0 "msg"=%q "part"="peers"`, "The operator waits for one of its parts to start"))
	})
}
