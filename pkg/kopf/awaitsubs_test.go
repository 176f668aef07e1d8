package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf/kopftest"
)

func TestAwaitSubs(t *testing.T) {
	notYet := kopf.Temporary(errors.New("not yet"), time.Second)
	for name, test := range map[string]struct {
		handler func(call func(id string, results ...error) kopf.Handler[configMap]) kopf.Handler[configMap]
		restart bool
		want    []string
	}{
		"without sub-handlers": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					if !req.AwaitSubs() {
						return errors.New("waits for nothing")
					}
					return call("end")(ctx, req)
				}
			},
			want: []string{"end 0"},
		},
		"one retry and one permanent failure": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				a, b := call("a", notYet), call("b", kopf.Permanent(errors.New("no")))
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					req.Sub("a", a)
					req.Sub("b", b)
					if !req.AwaitSubs() {
						return nil
					}
					return call("end")(ctx, req)
				}
			},
			want: []string{"a 0", "b 0", "a 1", "end 0"},
		},
		"two stages, then retries": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				a, b, end := call("a", notYet), call("b", notYet), call("end", notYet, notYet)
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					if req.Sub("a", a); !req.AwaitSubs() {
						return nil
					}
					if req.Sub("b", b); !req.AwaitSubs() {
						return nil
					}
					return end(ctx, req)
				}
			},
			want: []string{"a 0", "a 1", "b 0", "b 1", "end 0", "end 1", "end 2"},
		},
		"two stages and a restart": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				a, b := call("a"), call("b", notYet, notYet, notYet, notYet)
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					if req.Sub("a", a); !req.AwaitSubs() {
						return nil
					}
					if req.Sub("b", b); !req.AwaitSubs() {
						return nil
					}
					return call("end")(ctx, req)
				}
			},
			restart: true,
			want:    []string{"a 0", "b 0", "b 1", "b 2", "b 3", "b 4", "end 0"},
		},
		"no sub-handler matches": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					if req.Sub("a", call("a"), kopf.Label("missing")); !req.AwaitSubs() {
						return nil
					}
					return call("end")(ctx, req)
				}
			},
			want: []string{"end 0"},
		},
		"a sub-handler waits for its own": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				inner := call("inner", notYet)
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					req.Sub("outer", func(ctx context.Context, sub *kopf.Request[configMap]) error {
						if sub.Sub("inner", inner); !sub.AwaitSubs() {
							return nil
						}
						return call("outer")(ctx, sub)
					})
					if !req.AwaitSubs() {
						return nil
					}
					return call("end")(ctx, req)
				}
			},
			want: []string{"inner 0", "inner 1", "outer 0", "end 0"},
		},
		"an error after the sub-handlers is permanent": {
			handler: func(call func(string, ...error) kopf.Handler[configMap]) kopf.Handler[configMap] {
				a, end := call("a"), call("end", kopf.Permanent(errors.New("no")))
				return func(ctx context.Context, req *kopf.Request[configMap]) error {
					if req.Sub("a", a); !req.AwaitSubs() {
						return nil
					}
					return end(ctx, req)
				}
			},
			want: []string{"a 0", "end 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := kopftest.Memory(t, kopftest.Objects(newConfigMap("one")))
				var calls []string
				// call returns a handler with these results, and then success.
				call := func(id string, results ...error) kopf.Handler[configMap] {
					return func(_ context.Context, req *kopf.Request[configMap]) (err error) {
						calls = append(calls, fmt.Sprintf("%s %d", id, req.Attempt.Number))
						if len(results) > 0 {
							err, results = results[0], results[1:]
						}
						return err
					}
				}
				handler := test.handler(call)
				start := func() *kopftest.Operator {
					return cluster.Run(t, kopf.For(&corev1.ConfigMap{}).OnCreate("parent", handler))
				}
				operator := start()
				if test.restart {
					<-time.After(2500 * time.Millisecond)
					operator.Crash(t)
					operator = start()
				}
				operator.RunUntilQuiet(t)
				if !slices.Equal(calls, test.want) {
					t.Errorf("calls = %q, want %q", calls, test.want)
				}
			})
		})
	}
}

func TestAwaitSubs_InTests(t *testing.T) {
	handler := func(_ context.Context, req *kopf.Request[configMap]) error {
		if req.Sub("a", succeed); !req.AwaitSubs() {
			return nil
		}
		return errors.New("after the sub-handler")
	}
	if inv := kopftest.Invoke(t, handler, newConfigMap("one")); inv.Outcome.Err != nil || !slices.Equal(inv.SubHandlers, []string{"a"}) {
		t.Errorf("error = %v and sub-handlers = %q, want no error and the sub-handler", inv.Outcome.Err, inv.SubHandlers)
	}
	if inv := kopftest.Invoke(t, handler, newConfigMap("one"), kopftest.WithFinishedSubHandlers("a")); inv.Outcome.Err == nil {
		t.Error("the handler has not continued after its finished sub-handler")
	}
	if req := (&kopf.Request[configMap]{}); !req.AwaitSubs() {
		t.Error("a request of a test waits for sub-handlers")
	}
}

func succeed(context.Context, *kopf.Request[configMap]) error { return nil }
