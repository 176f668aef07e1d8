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

// Program is a process that Start has started. The process may have ended.
type Program struct {
	name   string
	cmd    *exec.Cmd
	output lines
	done   chan struct{}
	err    error // error of the process; valid when done is closed
}

// Start starts a program with arguments and additional environment variables of the form KEY=value. The caller must call Stop.
func Start(file string, args []string, env ...string) (*Program, error) {
	p := &Program{name: filepath.Base(file), cmd: exec.Command(file, args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = ownProcessGroup()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
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

// Lines returns the lines that the program has written to its standard output and standard error.
func (p *Program) Lines() []string { return p.output.all() }

// Done returns a channel that is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// Stop sends SIGTERM, and kills the program after a timeout. It returns an error if the program was killed or has failed.
func (p *Program) Stop(timeout time.Duration) error {
	select {
	case <-p.done:
	default:
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return errors.Join(err, p.Kill())
		}
	}
	select {
	case <-p.done:
	case <-time.After(timeout):
		return errors.Join(fmt.Errorf("%s did not end within %s of SIGTERM", p.name, timeout), p.Kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with an error: %w", p.name, p.err)
	}
	return nil
}

// Kill kills the program and waits until it has ended.
func (p *Program) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}
