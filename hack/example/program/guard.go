//go:build unix

package program

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

const guardScript = `
trap '' HUP INT QUIT TERM
read -r nothing
kill -9 "$1"
`

// guard starts a shell process that kills another process when this process has ended without calling release.
func guard(pid int) (release func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "kopf-program-guard", strconv.Itoa(pid))
	cmd.SysProcAttr = ownProcessGroup()
	stdin, err := cmd.StdinPipe() // nothing is written to the pipe; release closes it
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that stops the program: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}, nil
}

// ownProcessGroup makes a command start in its own process group, so that it does not receive Ctrl-C.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
