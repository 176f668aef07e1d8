package daemons

import (
	"errors"
	"fmt"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// Check tells all mistakes in the task, joined: what is wrong, and what to do. [Supervisor.Ensure] does it too.
func (t Task) Check() error {
	var c checker
	if t.Run == nil {
		c.mistakef("Run is nil: give the task a function")
	}
	c.notNegative("InitialDelay", &t.InitialDelay)
	c.policy(t.Policy)
	if t.Timer == nil {
		c.daemon(t)
	} else {
		c.timer(t)
	}
	return errors.Join(c...)
}

// A checker collects mistakes.
type checker []error

func (c *checker) mistakef(format string, args ...any) { *c = append(*c, fmt.Errorf(format, args...)) }

func (c *checker) notNegative(name string, d *time.Duration) {
	if d != nil && *d < 0 {
		c.mistakef("%s is negative (%s): use a duration of zero or more", name, *d)
	}
	if d != nil {
		if err := validation.Duration(*d); err != nil {
			c.mistakef("%s is %w", name, err)
		}
	}
}

func (c *checker) policy(p progress.Policy) {
	if p.Retries != nil && *p.Retries < 0 {
		c.mistakef("Policy.Retries is negative (%d): leave it out for no limit", *p.Retries)
	}
	c.notNegative("Policy.Timeout", p.Timeout)
	c.notNegative("Policy.Backoff", p.Backoff)
	c.notNegative("Policy.AttemptTimeout", &p.AttemptTimeout)
	if p.Backoff != nil && p.BackoffFunc != nil {
		c.mistakef("Policy has both Backoff and BackoffFunc: leave one out")
	}
	if p.Errors < progress.ErrorsTemporary || p.Errors > progress.ErrorsIgnored {
		c.mistakef("Policy.Errors (%d) is no mode: use ErrorsTemporary, ErrorsPermanent or ErrorsIgnored", p.Errors)
	}
}

func (c *checker) daemon(t Task) {
	if t.Restart < RestartNever || t.Restart > RestartAlways {
		c.mistakef("Restart (%d) is no policy: use RestartNever, RestartOnFailure or RestartAlways", t.Restart)
	}
	c.notNegative("CancellationBackoff", t.CancellationBackoff)
	c.notNegative("CancellationTimeout", t.CancellationTimeout)
}

func (c *checker) timer(task Task) {
	if task.Restart != RestartNever {
		c.mistakef("Restart is for daemons: leave it out, a timer goes on by itself")
	}
	if task.CancellationBackoff != nil || task.CancellationTimeout != nil {
		c.mistakef("CancellationBackoff and CancellationTimeout are for daemons: leave them out, " +
			"and use Policy.AttemptTimeout to limit an invocation")
	}
	t := task.Timer
	if t.Interval < 0 {
		c.mistakef("Timer.Interval is negative (%s): use a duration of more than zero", t.Interval)
	}
	if err := validation.Duration(t.Interval); err != nil {
		c.mistakef("Timer.Interval is %w", err)
	}
	c.notNegative("Timer.Idle", &t.Idle)
	if t.Interval == 0 && t.Idle == 0 && t.Schedule == nil {
		c.mistakef("Timer has no Interval, no Idle and no Schedule, or they are zero: set one; " +
			"for a single invocation use a daemon with an InitialDelay")
	}
	if t.Interval != 0 && t.Schedule != nil {
		c.mistakef("Timer has both an Interval and a Schedule: leave one out")
	}
	if t.Sharp && t.Interval == 0 {
		c.mistakef("Timer.Sharp needs an Interval: set one, or leave Sharp out")
	}
	if !t.Anchor.IsZero() && !t.Sharp {
		c.mistakef("Timer.Anchor is for sharp timers: set Sharp, or leave Anchor out")
	}
	if !(t.Jitter >= 0 && t.Jitter <= 1) { // not a number is neither
		c.mistakef("Timer.Jitter is %v: use a fraction from 0 to 1", t.Jitter)
	}
	if t.Jitter != 0 && t.Interval == 0 && t.Schedule == nil {
		c.mistakef("Timer.Jitter is a fraction of an interval: set Interval or Schedule, or leave Jitter out")
	}
	if t.MaxParallel < 0 {
		c.mistakef("Timer.MaxParallel is negative (%d): use one or more, or leave it out for %d", t.MaxParallel, DefaultMaxParallel)
	}
}
