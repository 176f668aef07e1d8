package program

import (
	"fmt"
	"os/exec"
	"strconv"
)

const guardScript = `
trap '' HUP INT QUIT TERM
read -r nothing
kill -9 "$1"
`

// guard kills a process when this one has ended without a release.
func guard(pid int) (release func(), err error) {
	shell, err := exec.LookPath("/bin/sh")
	if err != nil {
		return func() {}, nil // not a system to be guarded
	}
	cmd := exec.Command(shell, "-c", guardScript, "kopf-program-guard", strconv.Itoa(pid))
	cmd.SysProcAttr = apart()
	stdin, err := cmd.StdinPipe() // never written to; held by release, as long as that is held
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
