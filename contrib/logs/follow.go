package logs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/kopf-runtime/kopf-runtime/pkg/daemons"
	"github.com/kopf-runtime/kopf-runtime/pkg/kopf"
)

const (
	pollInterval = time.Second // interval at which the daemon reads the status of its pod from memory
	stallTimeout = 10 * time.Minute
	restartWait  = 10 * time.Second // time to read the rest of a log after the status shows a restart
	deletionWait = 5 * time.Second  // time to read the rest of the logs after the grace period of a deleted pod
)

// A follower follows the logs of one pod. Only the goroutine of the daemon calls the function and changes positions and bookmarks.
type follower struct {
	*options
	req        *kopf.Request[*corev1.Pod]
	state      *state
	lines      chan delivery
	pod        atomic.Pointer[corev1.Pod] // the latest pod
	draining   atomic.Bool                // whether the pod is being deleted
	containers map[string]*container
	running    sync.WaitGroup
}

// A delivery passes a line from a container to the goroutine of the daemon. The channel handled is closed when the line is handled.
type delivery struct {
	line     Line
	position *position
	handled  chan struct{}
}

func follow(ctx context.Context, o *options, req *kopf.Request[*corev1.Pod]) error {
	f := &follower{options: o, req: req, state: loadState(ctx, o, req), lines: make(chan delivery), containers: map[string]*container{}}
	// A deleted pod can still write lines until its containers have stopped.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), daemons.ErrDeleted) {
			cancel(context.Cause(ctx))
			return
		}
		f.draining.Store(true)
		time.AfterFunc(gracePeriod(req.Latest())+deletionWait, func() { cancel(daemons.ErrDeleted) })
	})()
	defer func() { // also after a panic of the function
		cancel(nil)
		f.running.Wait()
		if !f.draining.Load() {
			f.state.save(context.WithoutCancel(ctx), req)
		}
	}()
	return f.run(work)
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	if seconds := pod.DeletionGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// run calls the function for the lines of all containers.
func (f *follower) run(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	f.poll(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case d := <-f.lines:
			if ctx.Err() != nil {
				return nil
			}
			if f.match == nil || f.match.MatchString(d.line.Text) {
				if err := f.fn(ctx, f.req, d.line); err != nil {
					return err
				}
			}
			d.position.add(d.line.Time)
			close(d.handled)
		case <-ticker.C:
			f.poll(ctx)
			if f.isComplete() {
				return nil
			}
		}
		if time.Since(f.state.savedAt) >= f.bookmark {
			f.state.save(ctx, f.req)
		}
	}
}

// poll starts to follow new containers, and interrupts streams that no longer deliver lines.
func (f *follower) poll(ctx context.Context) {
	pod := f.req.Latest()
	f.pod.Store(pod)
	for name, now := range instances(pod) {
		if len(f.options.containers) > 0 && !slices.Contains(f.options.containers, name) {
			continue
		}
		c := f.containers[name]
		if c == nil {
			c = &container{follower: f, name: name, position: f.state.position(name)}
			f.containers[name] = c
			f.running.Go(func() { c.follow(ctx) })
		}
		c.interruptIfStalled(now)
	}
}

// isComplete reports whether no further lines can follow.
func (f *follower) isComplete() bool {
	pod := f.pod.Load()
	if phase := pod.Status.Phase; phase != corev1.PodSucceeded && phase != corev1.PodFailed && !f.draining.Load() {
		return false
	}
	now := instances(pod)
	for name, c := range f.containers {
		if !c.hasRead(now[name]) {
			return false
		}
	}
	return true
}

// An instance is one run of a container.
type instance struct {
	id       string
	restarts int32
	running  bool
}

// instances returns the newest instances of all containers that have started.
func instances(pod *corev1.Pod) map[string]instance {
	found := map[string]instance{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for _, s := range list {
			switch {
			case s.State.Running != nil:
				found[s.Name] = instance{s.ContainerID, s.RestartCount, true}
			case s.State.Terminated != nil:
				found[s.Name] = instance{s.State.Terminated.ContainerID, s.RestartCount, false}
			case s.LastTerminationState.Terminated != nil:
				found[s.Name] = instance{s.LastTerminationState.Terminated.ContainerID, s.RestartCount, false}
			}
		}
	}
	return found
}
