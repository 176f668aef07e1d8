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

// guard kills a process when this one has ended without a release.
func guard(pid int) (release func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "kopf-program-guard", strconv.Itoa(pid))
	cmd.SysProcAttr = apart()
	stdin, err := cmd.StdinPipe() // nothing is written to it; it is held by the release
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the guard of the program does not start: %w", err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}, nil
}

// apart keeps a process out of the reach of Ctrl-C.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
