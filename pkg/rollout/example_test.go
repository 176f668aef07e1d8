package rollout_test

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/rollout"
)

// The rollout begins with objects in the nights before workdays.
func ExampleWindow() {
	nights := rollout.Window{
		From: 22 * time.Hour, To: 5 * time.Hour,
		Days: []time.Weekday{time.Sunday, time.Monday, time.Tuesday, time.Wednesday, time.Thursday},
	}
	friday := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, clock := range []time.Duration{2 * time.Hour, 12 * time.Hour} {
		open, until := nights.IsOpen(friday.Add(clock))
		fmt.Println(open, until.Format("Monday 15:04"))
	}
	// Output:
	// true Friday 05:00
	// false Sunday 22:00
}

// A program resumes all halted rollouts whose failures are only a few.
func ExampleResume() {
	resume := func(ctx context.Context, c client.Client) error {
		configMap := client.ObjectKey{Namespace: "databases-system", Name: rollout.DefaultName}
		states, err := rollout.Load(ctx, c, configMap)
		if err != nil {
			return err
		}
		for kind, state := range states {
			if state.Halted == nil || state.Progress[""].Failed > 3 {
				continue
			}
			if err := rollout.Resume(ctx, c, configMap, kind); err != nil {
				return err
			}
		}
		return nil
	}
	_ = resume
}
