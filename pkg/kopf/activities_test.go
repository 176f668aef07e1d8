package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/events"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

var errBroken = errors.New("broken")

func noopConfigMap(context.Context, *kopf.Request[*corev1.ConfigMap]) error { return nil }

// clock records calls and their times.
type clock struct {
	started time.Time
	calls   []string
}

func newClock() *clock { return &clock{started: time.Now()} }

// record returns an activity that records its calls. It returns the given errors one by one, and then nil.
func (c *clock) record(id string, errs ...error) func(context.Context) error {
	return func(context.Context) error {
		c.calls = append(c.calls, fmt.Sprintf("%s after %s", id, time.Since(c.started)))
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

func TestStart_Activities(t *testing.T) {
	type check struct {
		name     string
		options  func(*clock) []kopf.Option
		calls    []string
		requests bool
		errors   []string
	}
	for _, test := range []check{
		{
			name: "ACT-01 ACT-04 the activities run in order, before the first request",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{kopf.OnStartup("one", c.record("one")), kopf.OnStartup("two", c.record("two"))}
			},
			calls: []string{"one after 0s", "two after 0s"}, requests: true,
		},
		{
			name: "ACT-03 an error delays the start by one minute",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{kopf.OnStartup("one", c.record("one", errBroken, errBroken))}
			},
			calls: []string{"one after 0s", "one after 1m0s", "one after 2m0s"}, requests: true,
		},
		{
			name: "ACT-01 each activity has its own backoff",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{
					kopf.OnStartup("slow", c.record("slow", errBroken), kopf.Backoff(10*time.Second)),
					kopf.OnStartup("quick", c.record("quick", kopf.Temporary(errBroken, time.Second), kopf.Temporary(errBroken, 3*time.Second))),
					kopf.OnStartup("good", c.record("good")),
				}
			},
			calls: []string{"slow after 0s", "quick after 0s", "good after 0s", "quick after 1s", "quick after 4s", "slow after 10s"}, requests: true,
		},
		{
			name: "ACT-02 ACT-04 ACT-07 a permanent failure stops the operator after the other activities",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{
					kopf.OnStartup("bad", c.record("bad", kopf.Permanent(errBroken))),
					kopf.OnStartup("late", c.record("late", errBroken), kopf.Backoff(time.Second)),
					kopf.OnCleanup("cleanup", c.record("cleanup")),
				}
			},
			calls:  []string{"bad after 0s", "late after 0s", "late after 1s"},
			errors: []string{"cannot start", `OnStartup("bad")`, "broken"},
		},
		{
			name: "ACT-02 the error names all failed activities",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{
					kopf.OnStartup("limited", c.record("limited", errBroken, errBroken, errBroken), kopf.Retries(2), kopf.Backoff(time.Second)),
					kopf.OnStartup("strict", c.record("strict", errBroken), kopf.ErrorMode(progress.ErrorsPermanent)),
					kopf.OnStartup("timed", c.record("timed", errBroken, errBroken), kopf.Timeout(5*time.Second), kopf.Backoff(4*time.Second)),
					kopf.OnStartup("panics", func(context.Context) error { panic("oh") }, kopf.Retries(1)),
					kopf.OnStartup("ignored", c.record("ignored", errBroken), kopf.ErrorMode(progress.ErrorsIgnored)),
				}
			},
			calls: []string{
				"limited after 0s", "strict after 0s", "timed after 0s", "ignored after 0s", "limited after 1s", "timed after 4s",
			},
			errors: []string{`OnStartup("limited")`, "gave up after 2 attempts", `OnStartup("strict")`, `OnStartup("timed")`, "5s", `OnStartup("panics")`, "oh"},
		},
		{
			name: "ACT-06 the cleanup functions run in order after an error",
			options: func(c *clock) []kopf.Option {
				return []kopf.Option{
					kopf.OnCleanup("one", c.record("one", errBroken), kopf.Backoff(time.Second)),
					kopf.OnCleanup("two", c.record("two", kopf.Permanent(errBroken))),
				}
			},
			calls: []string{"one after 0s", "two after 0s", "one after 1s"}, requests: true,
			errors: []string{`OnCleanup("two")`, "broken"},
		},
		{
			name: "ACT-02 AttemptTimeout ends an attempt",
			options: func(*clock) []kopf.Option {
				return []kopf.Option{kopf.OnStartup("hangs", func(ctx context.Context) error {
					<-ctx.Done()
					return ctx.Err()
				}, kopf.AttemptTimeout(time.Second), kopf.Retries(1))}
			},
			errors: []string{`OnStartup("hangs")`, "deadline"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, mgr := newClock(), &fakeManager{}
				err := newOperator(mgr, test.options(c)...).Start(t.Context())
				equal(t, "calls", c.calls, test.calls)
				equal(t, "requests are sent", mgr.requests > 0, test.requests)
				equal(t, "a failed request ends the operator", errors.Is(err, errNoServer), test.requests)
				for _, text := range test.errors {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("error = %v, want an error with %q", err, text)
					}
				}
			})
		})
	}
}

// ACT-07: an operator that is stopped during its startup calls no cleanup function and returns no error.
func TestStart_StoppedDuringStartup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, mgr := newClock(), &fakeManager{}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := newOperator(mgr,
			kopf.OnStartup("never", c.record("never", errBroken)),
			kopf.OnCleanup("cleanup", c.record("cleanup")),
		).Start(ctx)
		equal(t, "error", err, error(nil))
		equal(t, "calls", c.calls, []string{"never after 0s"})
		equal(t, "time until the stop", time.Since(c.started), 10*time.Second)
		equal(t, "requests", mgr.requests, 0)
	})
}

// ACT-06: the context of cleanup functions is not canceled, so that they can send requests.
func TestOnCleanup_ContextIsNotCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stopped, cleaning error
	err := newOperator(&fakeManager{},
		kopf.OnStartup("stop", func(context.Context) error { cancel(); return nil }),
		kopf.OnCleanup("cleanup", func(inner context.Context) error {
			stopped, cleaning = ctx.Err(), inner.Err()
			return nil
		}),
	).Start(ctx)
	equal(t, "the operator has failed", errors.Is(err, errNoServer), true)
	equal(t, "error of the operator's context", stopped, context.Canceled)
	equal(t, "error of the cleanup's context", cleaning, error(nil))
}

// MEMO-02, ACT-05: all activities of an operator share its memos.
func TestMemo_SharedByActivities(t *testing.T) {
	memo, other := kopf.NewMemo[int]("one"), kopf.NewMemo[int]("one")
	var got int
	var known, otherKnown bool
	_ = newOperator(&fakeManager{},
		kopf.OnStartup("store", func(ctx context.Context) error { memo.Store(ctx, 7); return nil }),
		kopf.OnCleanup("load", func(ctx context.Context) error {
			got, known = memo.Load(ctx)
			_, otherKnown = other.Load(ctx)
			return nil
		}),
	).Start(t.Context())
	equal(t, "MEMO-02 value", got, 7)
	equal(t, "MEMO-02 value exists", known, true)
	equal(t, "MEMO-02 value exists in another memo of the same name", otherKnown, false)
}

func TestMemo_PanicsOutsideOfHandlers(t *testing.T) {
	defer func() {
		if message := fmt.Sprint(recover()); !strings.Contains(message, "the-memo") || !strings.Contains(message, "context") {
			t.Errorf("MEMO-01: panic = %q, want the name of the memo and advice", message)
		}
	}()
	kopf.NewMemo[int]("the-memo").Load(t.Context())
}

func TestCheckDeclaration_Activities(t *testing.T) {
	fine := func(context.Context) error { return nil }
	for _, test := range []struct {
		name   string
		option kopf.Option
		want   string
	}{
		{"ACT-01 no id", kopf.OnStartup("", fine), "the id is empty"},
		{"ACT-01 no function", kopf.OnCleanup("a", nil), `OnCleanup("a")`},
		{"ACT-01 negative retries", kopf.OnStartup("a", fine, kopf.Retries(-1)), "must not be negative, got -1"},
		{"ACT-01 an option without effect", kopf.OnStartup("a", fine, kopf.Field("spec")), `OnStartup("a")`},
		{"PROBE-02 no id", kopf.OnProbe("", func(context.Context) (any, error) { return nil, nil }), "the id is empty"},
		{"PROBE-02 no function", kopf.OnProbe("a", nil), `OnProbe("a")`},
		{"SE-16 a threshold of zero", kopf.WithStuckAfter(0), "WithStuckAfter"},
		{"a negative quota of Events", kopf.WithEvents(events.Options{Burst: -1}), "WithEvents: Burst must not be negative, got -1"},
		{"a negative interval of Events", kopf.WithEvents(events.Options{Interval: -time.Second}), "WithEvents: Interval must not be negative, got -1s"},
		{"a quota with an interval without a unit", kopf.WithEvents(events.Options{Burst: 10, Interval: 60}), "WithEvents: Interval is "},
		{"a negative interval between checks", kopf.WithWatchCheck(-time.Second), "WithWatchCheck must not be negative, got -1s: use 0"},
		{"an interval without a unit", kopf.WithWatchCheck(60), "WithWatchCheck is "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := newOperator(&fakeManager{}, test.option).CheckDeclaration(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error = %v, want an error with %q", err, test.want)
			}
		})
	}
	twice := newOperator(&fakeManager{}, kopf.OnStartup("a", fine), kopf.OnStartup("a", fine)).CheckDeclaration()
	if twice == nil || !strings.Contains(twice.Error(), "twice") {
		t.Errorf("ACT-01: error = %v, want an error about the duplicate id", twice)
	}
	both := newOperator(&fakeManager{}, kopf.OnStartup("a", fine), kopf.OnCleanup("a", fine)).CheckDeclaration()
	equal(t, "ACT-01 error for a startup and a cleanup function with the same id", both, error(nil))
}
