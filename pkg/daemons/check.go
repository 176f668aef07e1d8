package daemons

import (
	"errors"
	"fmt"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Check returns all errors in the task definition, joined. [Supervisor.Ensure] calls it.
func (t Task) Check() error {
	var c checker
	if t.Run == nil {
		c.addErrorf("Run is nil: set a function")
	}
	c.checkDuration("InitialDelay", &t.InitialDelay)
	c.checkPolicy(t.Policy)
	if t.Timer == nil {
		c.checkDaemon(t)
	} else {
		c.checkTimer(t)
	}
	return errors.Join(c...)
}

// A checker collects errors.
type checker []error

func (c *checker) addErrorf(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

func (c *checker) checkDuration(name string, d *time.Duration) {
	if d != nil && *d < 0 {
		c.addErrorf("%s must not be negative, got %s", name, *d)
	}
	if d != nil {
		if err := validation.DurationUnit(*d); err != nil {
			c.addErrorf("%s is %w", name, err)
		}
	}
}

func (c *checker) checkPolicy(p progress.Policy) {
	if p.Retries != nil && *p.Retries < 0 {
		c.addErrorf("Policy.Retries must not be negative, got %d: leave it out for no limit", *p.Retries)
	}
	c.checkDuration("Policy.Timeout", p.Timeout)
	c.checkDuration("Policy.Backoff", p.Backoff)
	c.checkDuration("Policy.AttemptTimeout", &p.AttemptTimeout)
	if p.Backoff != nil && p.BackoffFunc != nil {
		c.addErrorf("Policy.Backoff and Policy.BackoffFunc are mutually exclusive: remove one")
	}
	if p.Errors < progress.ErrorsTemporary || p.Errors > progress.ErrorsIgnored {
		c.addErrorf("Policy.Errors has the invalid value %d: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", p.Errors)
	}
}

func (c *checker) checkDaemon(t Task) {
	if t.Restart < RestartNever || t.Restart > RestartAlways {
		c.addErrorf("Restart has the invalid value %d: use RestartNever, RestartOnFailure or RestartAlways", t.Restart)
	}
	c.checkDuration("CancellationBackoff", t.CancellationBackoff)
	c.checkDuration("CancellationTimeout", t.CancellationTimeout)
}

func (c *checker) checkTimer(task Task) {
	if task.Daemon != (Daemon{}) {
		c.addErrorf("Daemon is set for a timer: remove it, because timers repeat anyway, and use Policy.AttemptTimeout to limit an invocation")
	}
	t := task.Timer
	if t.Interval < 0 {
		c.addErrorf("Interval must not be negative, got %s", t.Interval)
	}
	if err := validation.DurationUnit(t.Interval); err != nil {
		c.addErrorf("Interval is %w", err)
	}
	c.checkDuration("Idle", &t.Idle)
	if t.Interval == 0 && t.Idle == 0 && t.Schedule == nil {
		c.addErrorf("the timer needs an Interval, an Idle or a Schedule: set one; " +
			"for a single invocation use a daemon with an InitialDelay")
	}
	if t.Interval != 0 && t.Schedule != nil {
		c.addErrorf("Interval and Schedule are mutually exclusive: remove one")
	}
	if t.Sharp && t.Interval == 0 {
		c.addErrorf("Sharp needs an Interval: set one or remove Sharp")
	}
	if !t.Anchor.IsZero() && !t.Sharp {
		c.addErrorf("Anchor is only for sharp timers: set Sharp or remove Anchor")
	}
	if !(t.Jitter >= 0 && t.Jitter <= 1) { // comparisons with NaN are false
		c.addErrorf("Jitter must be a fraction from 0 to 1, got %v", t.Jitter)
	}
	if t.Jitter != 0 && t.Interval == 0 && t.Schedule == nil {
		c.addErrorf("Jitter needs an Interval or a Schedule: set one or remove Jitter")
	}
	if t.MaxParallel < 0 {
		c.addErrorf("MaxParallel must not be negative, got %d: leave it out for the default %d", t.MaxParallel, DefaultMaxParallel)
	}
}
