package soak

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child process with an operator. The test restarts it after each exit until the end.
type process struct {
	t      *testing.T
	setup  operatorSetup
	ledger *ledger
	log    *os.File

	mu       sync.Mutex
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	lines    *bufio.Reader
	stopping bool
	starts   int
	exited   chan struct{} // channel that is closed when the current process exits
}

func startProcess(t *testing.T, setup operatorSetup, l *ledger, log *os.File) *process {
	t.Helper()
	p := &process{t: t, setup: setup, ledger: l, log: log}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) start() error {
	text, err := json.Marshal(p.setup)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(p.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), operatorEnv+"="+string(text))
	cmd.Stderr = p.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.stdin, p.lines, p.exited = cmd, stdin, bufio.NewReader(stdout), exited
	p.starts++
	p.mu.Unlock()
	go p.supervise(cmd, exited)
	return nil
}

// supervise restarts the process after it exits.
func (p *process) supervise(cmd *exec.Cmd, exited chan struct{}) {
	err := cmd.Wait()
	ended := time.Now()
	close(exited)
	p.mu.Lock()
	stopping := p.stopping
	p.mu.Unlock()
	if stopping || p.t.Context().Err() != nil {
		return
	}
	if !p.setup.Lease {
		p.ledger.violatef("the process of the steady group has ended: %v", err)
	}
	p.ledger.interrupt(ended, ended)
	if err := p.start(); err != nil {
		p.ledger.violatef("process %d cannot be started again: %v", p.setup.Process, err)
	}
}

// state returns the state of the operator. ok is false if the operator does not answer.
func (p *process) state() (state operatorState, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.stdin); err != nil {
		return state, false
	}
	line, err := p.lines.ReadBytes('\n')
	return state, err == nil && json.Unmarshal(line, &state) == nil
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(s)
}

// end sends SIGTERM or SIGKILL to the process. The function supervise then restarts it.
func (p *process) end(s syscall.Signal) {
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	from := time.Now()
	p.ledger.interrupt(from, from)
	p.signal(s)
	<-exited
	p.ledger.interrupt(from, time.Now())
}

// suspend stops the process with SIGSTOP and continues it after d.
func (p *process) suspend(d time.Duration) {
	from := time.Now()
	p.ledger.interrupt(from, from.Add(d)) // record the interruption first, because the successor may repeat calls before the suspension ends
	p.signal(syscall.SIGSTOP)
	pause(p.t, d)
	p.signal(syscall.SIGCONT)
	p.ledger.interrupt(from, time.Now())
}

func (p *process) stop() {
	p.mu.Lock()
	p.stopping = true
	exited := p.exited
	_ = p.stdin.Close()
	p.mu.Unlock()
	<-exited
}

// processFault is a fault of a process in the replaced group.
type processFault struct {
	name string
	play func(*process)
}

var processFaults = []processFault{
	{"terminated", func(p *process) { p.end(syscall.SIGTERM) }},
	{"killed", func(p *process) { p.end(syscall.SIGKILL) }},
	{"suspended within the lease", func(p *process) { p.suspend(leaseDuration / 2) }},
	{"suspended past the lease", func(p *process) { p.suspend(2 * leaseDuration) }},
}

// group is a set of processes with one namespace, one proxy and one ledger.
type group struct {
	name      string
	namespace string
	proxy     *proxy
	ledger    *ledger
	processes []*process
	played    map[string]int
}

// selectProcess returns the leader, or a random process if none leads.
func (g *group) selectProcess(random *rand.Rand) *process {
	for _, p := range g.processes {
		if state, ok := p.state(); ok && state.Leading {
			return p
		}
	}
	return g.processes[random.IntN(len(g.processes))]
}

// pause waits for d in real time, because the processes of the test do not share a virtual clock.
func pause(t *testing.T, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
