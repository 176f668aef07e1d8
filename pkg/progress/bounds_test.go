package progress_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// A delay that no operator stores must not block an object for years.
func TestRecord_IgnoresDelaysBeyondTheMaximum(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	forever := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		delayed time.Time
		waits   time.Duration
	}{
		"the maximum":           {now.Add(progress.MaxDelay), progress.MaxDelay},
		"more than the maximum": {now.Add(progress.MaxDelay + time.Microsecond), 0},
		"centuries":             {forever, 0},
		"the last year":         {time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), 0},
		"the past":              {time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Hour), 0},
	} {
		t.Run(name, func(t *testing.T) {
			record := progress.Record{Started: now, Delayed: test.delayed, Purpose: "update", Retries: 1}
			if due := record.Due(now); due != (test.waits == 0) {
				t.Errorf("Due = %t", due)
			}
			obj, store := &metav1.PartialObjectMetadata{}, progress.Smart()
			parent := progress.Record{Started: now, Purpose: "update", Retries: 1, Message: "failed", Subrefs: []string{"grow/a"}}
			for id, stored := range map[string]progress.Record{"shrink": record, "grow": parent, "grow/a": record} {
				if err := store.Store(obj, id, stored); err != nil {
					t.Fatal(err)
				}
			}
			state, err := progress.Load(store, obj, []string{"shrink", "grow"})
			if err != nil {
				t.Fatal(err)
			}
			if delay, _ := state.StaleAfter(now); delay != test.waits {
				t.Errorf("StaleAfter = %s, want %s", delay, test.waits)
			}
			state.Begin("delete", []string{"shrink"}, now) // a deletion keeps the delay of the unfinished handler
			if delay, ok := state.Delay(now); delay != test.waits || !ok {
				t.Errorf("Delay = %s, %t, want %s", delay, ok, test.waits)
			}
			if err := state.Adopt(store, obj, "grow", []string{"grow/a"}, now); err != nil {
				t.Fatal(err)
			}
			if delay, ok := state.DelayBelow("grow", now); delay != test.waits || !ok {
				t.Errorf("DelayBelow = %s, %t, want %s", delay, ok, test.waits)
			}
			if err := state.PurgeStale(store, obj, now); err != nil {
				t.Fatal(err)
			}
			if left := len(obj.Annotations) > 0; left != (test.waits > 0) {
				t.Errorf("annotations = %v after PurgeStale", obj.Annotations)
			}
		})
	}
}

func TestPolicy_LimitsDelays(t *testing.T) {
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	for name, policy := range map[string]progress.Policy{
		"the error":       {},
		"the backoff":     {Backoff: new(10 * progress.MaxDelay)},
		"a function":      {BackoffFunc: func(progress.Attempt, error) time.Duration { return 10 * progress.MaxDelay }},
		"without a limit": {Timeout: new(11 * progress.MaxDelay)},
	} {
		err := errors.New("failed")
		if name == "the error" || name == "without a limit" {
			err = progress.Temporary(err, 10*progress.MaxDelay)
		}
		outcome := policy.Outcome(progress.Record{Started: now}, now, err)
		if outcome.Delay != progress.MaxDelay || outcome.Final {
			t.Errorf("%s: the delay is %s, want %s", name, outcome.Delay, progress.MaxDelay)
		}
	}
	record := progress.Record{Started: now}.WithOutcome(progress.Outcome{Delay: 10 * progress.MaxDelay, Attempted: true}, now)
	if record.Due(now) || !record.Due(now.Add(progress.MaxDelay)) {
		t.Errorf("the record is delayed until %s", record.Delayed)
	}
}

// Users may choose parts of the texts of errors.
func TestPolicy_LimitsTheTextsOfErrors(t *testing.T) {
	const most = 16 << 10
	cause := errors.New("the end")
	long := fmt.Errorf("the beginning %s: %w", strings.Repeat("x", 3<<20), cause)
	for name, test := range map[string]struct {
		policy progress.Policy
		record progress.Record
		do     func(context.Context) error
	}{
		"an error":    {do: func(context.Context) error { return long }},
		"temporary":   {do: func(context.Context) error { return progress.Temporary(long, time.Minute) }},
		"permanent":   {do: func(context.Context) error { return progress.Permanent(long) }},
		"a limit":     {policy: progress.Policy{Retries: new(1)}, do: func(context.Context) error { return long }},
		"ignored":     {policy: progress.Policy{Errors: progress.ErrorsIgnored}, do: func(context.Context) error { return long }},
		"a panic":     {do: func(context.Context) error { panic(long.Error()) }},
		"interrupted": {do: func(context.Context) error { return long }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			outcome := test.policy.Attempt(ctx, test.record, time.Now(), func(ctx context.Context) error {
				if name == "interrupted" {
					cancel()
				}
				return test.do(ctx)
			})
			if text := outcome.Err.Error(); len(text) > most || !strings.Contains(text, "the end") {
				t.Errorf("the text has %d bytes: %.30s", len(text), text)
			}
			if name != "a panic" && !errors.Is(outcome.Err, cause) {
				t.Error("the error does not wrap its cause")
			}
			if outcome.Interrupted != (name == "interrupted") {
				t.Errorf("Interrupted = %t", outcome.Interrupted)
			}
		})
	}
}

func TestRecord_LimitsStoredTexts(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	fetch := func(text string) (*progress.Record, error) {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetAnnotations(map[string]string{progress.DefaultPrefix + "/grow": text})
		return progress.Smart().Fetch(obj, "grow")
	}
	record, err := fetch(`{"purpose":"create","retries":1,"message":"` + long + `"}`)
	if err != nil || len(record.Message) > 1100 {
		t.Errorf("the message has %d bytes, error %v", len(record.Message), err)
	}
	for _, text := range []string{`{"purpose":"` + long + `"}`, `{"started":"` + long + `"}`, `{"success":"` + long + `"}`, `{"` + long + `":`, long} {
		if record, err := fetch(text); record != nil || err == nil || len(err.Error()) > 500 {
			t.Errorf("%.20s: got a record: %t, an error of %d bytes", text, record != nil, len(fmt.Sprint(err)))
		}
	}
}
