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
	"strings"
	"time"
)

// process is a running operator process.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// startProcess starts an operator process but not its manager, so the time to start the process is not measured. The
// name becomes part of the file names of profiles.
func (b *bench) startProcess(r role, name string) *process {
	b.t.Helper()
	r.Workers, r.Plural, r.Lean = b.workers, r.kind().plural, b.lean && r.Side == library
	if b.profiles != "" {
		r.Profile = filepath.Join(b.profiles, fmt.Sprintf("%s-%s-%d.pprof", strings.ReplaceAll(name, " ", "-"), r.Side, b.round))
	}
	text, err := json.Marshal(r)
	b.must(err)
	command := []string{os.Args[0]}
	if r.Side == python {
		command = []string{filepath.Join(*kopfFlag, "bin", "python"), "kopf_operator.py"}
	}
	p := &process{cmd: exec.CommandContext(b.t.Context(), command[0], command[1:]...)}
	p.cmd.Env = append(os.Environ(), operatorEnv+"="+string(text), "KUBECONFIG="+b.kubeconfig)
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	b.must(err)
	stdout, err := p.cmd.StdoutPipe()
	b.must(err)
	p.lines = bufio.NewReader(stdout)
	b.must(p.cmd.Start())
	return p
}

// send sends a command and returns the response.
func (b *bench) send(p *process, command string) stats {
	b.t.Helper()
	_, err := fmt.Fprintln(p.stdin, command)
	b.must(err)
	line, err := p.lines.ReadBytes('\n')
	b.must(err)
	var result stats
	b.must(json.Unmarshal(line, &result))
	return result
}

// startSynced starts an operator process and its manager, and waits until the cache is synced.
func (b *bench) startSynced(r role, name string) *process {
	b.t.Helper()
	p := b.startProcess(r, name)
	b.send(p, doStart)
	b.send(p, doSync)
	return p
}

// stop closes the standard input of the process and waits until it exits.
func (b *bench) stop(p *process) {
	b.t.Helper()
	b.must(errors.Join(p.stdin.Close(), p.cmd.Wait()))
}

// awaitIdle waits until the number of reconciles no longer changes, and returns the stats. The writes of an operator
// cause further reconciles, so it continues to work after the last object is handled.
func (b *bench) awaitIdle(p *process) stats {
	b.t.Helper()
	last, same := b.send(p, doStats), 0
	b.poll(50*time.Millisecond, func() bool {
		now := b.send(p, doStats)
		if now.Reconciles == last.Reconciles {
			same++
		} else {
			same = 0
		}
		last = now
		return same >= 4
	})
	return last
}

// poll calls done at the given interval until it returns true. It fails the test after waitTimeout. Each poll of an
// operator costs it CPU time.
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
			b.t.Fatalf("condition not met within %s: %v", waitTimeout, ctx.Err())
		}
	}
}
