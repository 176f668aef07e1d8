package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	firstPause = 200 * time.Millisecond
	lastPause  = 30 * time.Second
)

// A container reads the log of one container of a pod.
type container struct {
	*follower
	name     string
	position *position // the goroutine of the daemon changes the position while deliver waits

	previousRead int32                    // restart count for which the log of the previous instance was read
	read         atomic.Pointer[instance] // the last instance whose whole log is read
	stream       atomic.Pointer[stream]   // the open stream
}

// A stream is a response with log lines.
type stream struct {
	body     io.ReadCloser
	cancel   context.CancelCauseFunc
	restarts int32        // restart count at the start of the stream
	waits    atomic.Int64 // start of the present wait for data, in nanoseconds; 0 while the stream does not wait
}

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	s.waits.Store(time.Now().UnixNano())
	defer s.waits.Store(0)
	return s.body.Read(p)
}

var (
	errStalled = errors.New("the stream delivers no lines")
	errOpen    = errors.New("the log cannot be opened")
)

// interruptIfStalled ends a stream that has waited for data for at least stallTimeout, or for at least restartWait after a restart of the container.
func (c *container) interruptIfStalled(now instance) {
	s := c.stream.Load()
	if s == nil || s.waits.Load() == 0 {
		return
	}
	waited := time.Since(time.Unix(0, s.waits.Load()))
	if waited >= stallTimeout || waited >= restartWait && now.restarts != s.restarts {
		s.cancel(errStalled)
	}
}

// hasRead reports whether the instance has ended and its whole log is read.
func (c *container) hasRead(i instance) bool {
	read := c.read.Load()
	return read != nil && *read == i
}

// follow reads the logs of all instances until the context ends.
func (c *container) follow(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		now := instances(c.pod.Load())[c.name]
		if c.hasRead(now) {
			sleep(ctx, pollInterval)
			continue
		}
		lines, err := c.readInstance(ctx, now)
		switch {
		case err == nil && !now.running:
			c.read.Store(&now)
			continue
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOpen) && !apierrors.IsBadRequest(err): // for a waiting container, the API server returns a bad request
			log.FromContext(ctx).Info("Failed to open the log of a container; retrying", "container", c.name, "error", err.Error(), "retryAfter", pause.String())
		case err != nil:
			log.FromContext(ctx).V(1).Info("The stream of a log has ended; reopening", "container", c.name, "error", err.Error())
		}
		if lines > 0 {
			pause = firstPause
		}
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// readInstance reads the rest of the previous log, and then follows the current log until the stream ends. It returns the number of lines that
// were handled.
func (c *container) readInstance(ctx context.Context, now instance) (lines int, err error) {
	if now.restarts != c.previousRead {
		if lines, err = c.readPrevious(ctx, now); err != nil {
			return lines, err
		}
		c.previousRead = now.restarts
	}
	var more int
	if now.running {
		more, _, err = c.readStream(ctx, now, false)
	} else {
		more, err = c.readEnded(ctx, now, false)
	}
	return lines + more, err
}

// readPrevious reads the log of the previous instance, if the kubelet still has it.
func (c *container) readPrevious(ctx context.Context, now instance) (lines int, err error) {
	lines, err = c.readEnded(ctx, now, true)
	if apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) {
		return lines, nil
	}
	return lines, err
}

// readEnded reads the log of an instance that has ended. A connection between the API server and the kubelet can break without an error. Therefore
// readEnded repeats the request until a response has no new lines.
func (c *container) readEnded(ctx context.Context, now instance, previous bool) (lines int, err error) {
	var last Line
	for {
		n, rest, err := c.readStream(ctx, now, previous)
		lines += n
		switch {
		case err != nil:
			return lines, err
		case n == 0 && rest == (Line{}):
			return lines, nil
		case n == 0 && rest == last: // the last line has no line break
			return lines + 1, c.deliver(ctx, rest)
		}
		last = rest
	}
}

// readStream delivers the lines of a log that are not handled. It returns their number, and an unhandled last line without a line break.
func (c *container) readStream(ctx context.Context, now instance, previous bool) (lines int, rest Line, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request := &corev1.PodLogOptions{Container: c.name, Follow: now.running && !previous, Previous: previous, Timestamps: true}
	if since := c.position.since(); !since.IsZero() {
		request.SinceTime = &metav1.Time{Time: since} // the API has a precision of one second
	}
	s := &stream{cancel: cancel, restarts: now.restarts}
	s.waits.Store(time.Now().UnixNano())
	defer c.stream.Store(c.stream.Swap(s)) // readStream calls readPrevious while the stream of the current log is open
	if s.body, err = c.clientset.CoreV1().Pods(c.req.Object.Namespace).GetLogs(c.req.Object.Name, request).Stream(ctx); err != nil {
		return 0, Line{}, fmt.Errorf("%w: %w", errOpen, err)
	}
	defer s.body.Close()
	handled, isKnown := skipper{position: c.position.clone()}, previous
	for reader := newLineReader(s); ; {
		text, truncated, err := reader.next()
		line, ok := parse(text, truncated)
		line.Container = c.name
		skip := ok && handled.skip(line.Time)
		switch {
		case errors.Is(err, io.EOF) && ok && !skip:
			return lines, line, nil
		case errors.Is(err, io.EOF):
			return lines, Line{}, nil
		case err != nil:
			return lines, Line{}, err
		case !ok:
			log.FromContext(ctx).V(1).Info("Ignored a message in a log without a timestamp", "container", c.name, "text", string(text))
			continue
		case skip:
			isKnown = true
			continue
		}
		if !isKnown {
			// The container can have restarted before the status shows the restart. If the log begins with an unhandled line, first handle the rest of the previous log.
			if before, err := c.readPrevious(ctx, now); before > 0 || err != nil {
				return before, Line{}, err
			}
			isKnown = true
		}
		if err := c.deliver(ctx, line); err != nil {
			return lines, Line{}, err
		}
		lines++
	}
}

// deliver waits until the line is handled.
func (c *container) deliver(ctx context.Context, line Line) error {
	d := delivery{line: line, position: c.position, handled: make(chan struct{})}
	select {
	case c.lines <- d:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case <-d.handled:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sleep waits for a delay or for the end of the context.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
