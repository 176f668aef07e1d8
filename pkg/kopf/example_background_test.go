package kopf_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func ExampleResource_Daemon() {
	kopf.For(&Database{}).
		Daemon("watch", daemons.Daemon{}, func(ctx context.Context, req *DatabaseRequest) error {
			ticker := time.NewTicker(10 * time.Second)
			defer ticker.Stop()
			for {
				select {
				case <-ticker.C:
					log.FromContext(ctx).Info("The object exists", "size", req.Latest().Spec.Size)
				case <-ctx.Done():
					log.FromContext(ctx).Info("Stopped watching", "cause", context.Cause(ctx).Error())
					req.Object.Status.Phase = "unwatched" // written after the daemon has returned
					return nil
				}
			}
		})
}

// The cleanup of a daemon depends on the cause of the cancellation.
func ExampleResource_Daemon_cause() {
	kopf.For(&Database{}).
		Daemon("session", daemons.Daemon{}, func(ctx context.Context, req *DatabaseRequest) error {
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), daemons.ErrDeleted) {
				return cloud.Drop(context.WithoutCancel(ctx), req.Object.Name) // ctx is cancelled
			}
			return nil // for the other causes, the daemon can start again later
		}, kopf.Label("session"))
}

func ExampleResource_Daemon_restart() {
	kopf.For(&Database{}).
		// All errors are permanent. The first restart is delayed by one second, later restarts by up to one minute.
		Daemon("stream", daemons.Daemon{Restart: daemons.RestartOnFailure}, provision, kopf.ErrorMode(progress.ErrorsPermanent), kopf.Backoff(time.Minute)).
		// The daemon also restarts after it has returned nil.
		Daemon("poll", daemons.Daemon{Restart: daemons.RestartAlways}, provision)
}

func ExampleInitialDelay() {
	kopf.For(&Database{}).
		Daemon("watch", daemons.Daemon{}, provision, kopf.InitialDelay(10*time.Second)).
		Timer("check", daemons.Timer{Interval: time.Minute}, announce, kopf.InitialDelay(time.Minute)) // the first call is delayed
}

func ExampleInitialDelayFunc() {
	kopf.For(&Database{}).
		Timer("check", daemons.Timer{Interval: time.Minute}, announce, kopf.InitialDelayFunc(func(obj client.Object) time.Duration {
			if obj.(*Database).Spec.Size > 1000 {
				return 10 * time.Minute // large databases start slowly
			}
			return 0
		}))
}

func ExampleResource_Daemon_cancellation() {
	kopf.For(&Database{}).
		// After 5 seconds, the engine logs a warning. After 30 more seconds, the daemon no longer blocks the deletion.
		Daemon("stubborn", daemons.Daemon{CancellationBackoff: new(5 * time.Second), CancellationTimeout: new(30 * time.Second)}, provision)
}

func ExampleResource_Timer() {
	kopf.For(&Database{}).
		Timer("check", daemons.Timer{Interval: 30 * time.Second, Jitter: 0.1, MaxParallel: 4}, func(ctx context.Context, req *DatabaseRequest) error {
			address, err := cloud.Ensure(ctx, req.Object.Name, req.Object.Spec.Size)
			req.Object.Status.Address = address // written after each call
			return err
		}, kopf.AttemptTimeout(10*time.Second))
}

func ExampleResource_Timer_sharp() {
	kopf.For(&Database{}).
		// The operator calls the timer at each full hour after the creation of the object.
		Timer("bill", daemons.Timer{Interval: time.Hour, Sharp: true}, announce)
}

func ExampleResource_Timer_idle() {
	kopf.For(&Database{}).
		Timer("compact", daemons.Timer{Idle: 10 * time.Minute}, announce).                      // one call after ten minutes without a change
		Timer("rescale", daemons.Timer{Interval: time.Minute, Idle: 5 * time.Minute}, announce) // a call every minute, but not within five minutes after a change
}

// nightly is a schedule for each midnight. The schedules of github.com/robfig/cron/v3 also implement the interface:
//
//	nightly, err := cron.ParseStandard("CRON_TZ=Europe/Berlin 30 3 * * *")
type nightly struct{}

func (nightly) Next(after time.Time) time.Time {
	year, month, day := after.Date()
	return time.Date(year, month, day+1, 0, 0, 0, 0, after.Location())
}

func ExampleResource_Timer_schedule() {
	kopf.For(&Database{}).
		Timer("backup", daemons.Timer{Schedule: nightly{}}, provision, kopf.Retries(3), kopf.Backoff(10*time.Minute))

	fmt.Println(nightly{}.Next(time.Date(2026, 2, 28, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-03-01 00:00:00 +0000 UTC
}

func ExampleCancelOnDelete() {
	kopf.For(&Database{}).
		OnCreate("restore", func(ctx context.Context, req *DatabaseRequest) error {
			select {
			case <-time.After(time.Hour):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx) // ErrDeleted: the deletion continues without delay
			}
		}, kopf.CancelOnDelete()).
		OnDelete("drop", drop)
}

func ExampleRequest_Latest() {
	kopf.For(&Database{}).
		Daemon("follow", daemons.Daemon{}, func(ctx context.Context, req *DatabaseRequest) error {
			size := req.Object.Spec.Size // the size at the start of the daemon
			for ctx.Err() == nil {
				if now := req.Latest().Spec.Size; now != size {
					log.FromContext(ctx).Info("Resized", "from", size, "to", now)
					size = now
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
			return nil
		})
}
