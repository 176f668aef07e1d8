package program

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A Program is a running process, or one that has ended.
type Program struct {
	name   string
	cmd    *exec.Cmd
	output lines
	done   chan struct{}
	err    error // how it ended; valid when done
}

// Start starts a program with arguments, and with additions to the environment of this process as in
// KEY=value. It has to be stopped.
func Start(file string, args []string, env ...string) (*Program, error) {
	p := &Program{name: filepath.Base(file), cmd: exec.Command(file, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = apart()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", p.name, err)
	}
	release, err := guard(p.cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	go func() {
		p.err = p.cmd.Wait()
		release()
		close(p.done)
	}()
	return p, nil
}

// Lines returns what the program has written so far, to its standard output and error alike.
func (p *Program) Lines() []string { return p.output.all() }

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// Stop asks the program to end, and kills it when it does not in the given time. The error says so,
// or how it has ended otherwise than with success.
func (p *Program) Stop(patience time.Duration) error {
	select {
	case <-p.done:
	default:
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return errors.Join(err, p.Kill())
		}
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		return errors.Join(fmt.Errorf("%s does not end within %s of SIGTERM", p.name, patience), p.Kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s has ended: %w", p.name, p.err)
	}
	return nil
}

// Kill ends the program at once.
func (p *Program) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}
