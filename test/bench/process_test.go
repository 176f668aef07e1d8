package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A process is an operator process.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// launch starts the process of an operator without starting the operator: the start of the process is not measured. The
// name is that of its profiles, if any.
func (b *bench) launch(r role, name string) *process {
	b.t.Helper()
	r.Workers = b.workers
	if b.profiles != "" {
		r.Profile = filepath.Join(b.profiles, fmt.Sprintf("%s-%s-%d.pprof", name, r.Side, b.round))
	}
	text, err := json.Marshal(r)
	b.ok(err)
	p := &process{cmd: exec.CommandContext(b.t.Context(), os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text), "KUBECONFIG="+b.kubeconfig)
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	b.ok(err)
	stdout, err := p.cmd.StdoutPipe()
	b.ok(err)
	p.lines = bufio.NewReader(stdout)
	b.ok(p.cmd.Start())
	return p
}

// order sends a command, and returns the response.
func (b *bench) order(p *process, command string) stats {
	b.t.Helper()
	_, err := fmt.Fprintln(p.stdin, command)
	b.ok(err)
	line, err := p.lines.ReadBytes('\n')
	b.ok(err)
	var result stats
	b.ok(json.Unmarshal(line, &result))
	return result
}

// begin starts the operator, and waits for its cache.
func (b *bench) begin(r role, name string) *process {
	b.t.Helper()
	p := b.launch(r, name)
	b.order(p, doStart)
	b.order(p, doSync)
	return p
}

func (b *bench) stop(p *process) {
	b.t.Helper()
	b.ok(errors.Join(p.stdin.Close(), p.cmd.Wait()))
}

// awaitIdle waits until the operator is idle, because its own writes cause another reconcile.
func (b *bench) awaitIdle(p *process) stats {
	b.t.Helper()
	last, same := b.order(p, doStats), 0
	b.poll(50*time.Millisecond, func() bool {
		now := b.order(p, doStats)
		if now.Passes == last.Passes {
			same++
		} else {
			same = 0
		}
		last = now
		return same >= 4
	})
	return last
}

// pollInterval is the interval of polling an operator, which costs it some time.
const pollInterval = 20 * time.Millisecond

// poll sends a command until its response meets a condition.
func (b *bench) poll(every time.Duration, done func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), waitTimeout)
	defer cancel()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			b.t.Fatalf("not done after %s: %v", waitTimeout, ctx.Err())
		}
	}
}
