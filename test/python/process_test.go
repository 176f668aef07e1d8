package python

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ours is the side in Go. The other sides are the versions of kopf.
const ours = "ours"

// A process is a running operator.
type process struct {
	*exec.Cmd
	stdin  io.Closer
	exited chan struct{}
	output string // name of the file
}

// launch starts an operator of a side. The operator is killed at the end of the test, and also exits together with this process.
func (s *suite) launch(t *testing.T, side string, declared table) *process {
	t.Helper()
	declared.Group, declared.Version, declared.Kind, declared.Plural = s.gvk.Group, s.gvk.Version, s.gvk.Kind, plural(s.gvk)
	if side != ours {
		declared.Damage = ""
	}
	text, err := json.Marshal(declared)
	must(t, err)
	command := exec.Command(os.Args[0])
	if side != ours {
		// With -P, Python does not look for modules in the folder of the program.
		command = exec.Command(filepath.Join(*environments, side, "bin", "python"), "-P", "kopf_operator.py")
	}
	command.Env = append(os.Environ(), tableEnv+"="+string(text), "KUBECONFIG="+s.kubeconfig, "PYTHONDONTWRITEBYTECODE=1")
	p := &process{Cmd: command, exited: make(chan struct{}), output: filepath.Join(t.TempDir(), declared.Process)}
	output, err := os.Create(p.output)
	must(t, err)
	p.Stdout, p.Stderr = output, output
	p.stdin, err = p.StdinPipe()
	must(t, err)
	must(t, p.Start())
	go func() {
		defer close(p.exited)
		_ = p.Wait() // a killed process returns an error
		_ = output.Close()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill ends the process with SIGKILL, and waits until it has exited.
func (p *process) kill() {
	_ = p.Process.Kill() // it may have exited
	<-p.exited
	_ = p.stdin.Close() // closed by Wait
}

// running returns a problem if the process has exited.
func (p *process) running() []string {
	select {
	case <-p.exited:
		return []string{fmt.Sprintf("the operator has exited: %s\n%s", p.ProcessState, p.tail(40))}
	default:
		return nil
	}
}

// tail returns the last lines of the output.
func (p *process) tail(lines int) string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
