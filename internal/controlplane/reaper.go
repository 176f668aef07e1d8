//go:build linux || darwin

package controlplane

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// reaperScript waits until the pipe on its standard input is closed. Then it kills the listed processes whose command line contains the
// directory.
//
// It removes the file "open" before it reads the list, whereas a server writes its id to the list before it checks for the file. So every
// server is either on the list or doesn't start.
const reaperScript = `
trap '' HUP INT QUIT TERM
PATH=$PATH:/usr/bin:/bin
read -r nothing
rm -f "$1/open"
while read -r pid; do
	if [ -r "/proc/$pid/cmdline" ]; then
		command=$(tr '\0' ' ' <"/proc/$pid/cmdline")
	else
		command=$(ps -ww -o command= -p "$pid")
	fi
	case $command in *"$1"*) kill -9 "$pid" ;; esac
done <"$1/pids"
attempt=0
until rm -rf "$1" || [ $attempt = 30 ]; do # a killed server may still be writing
	attempt=$((attempt + 1))
	sleep 0.1 || sleep 1
done
`

// serverScript starts a server with exec, so that it keeps the process id. envtest also runs the binaries with --help, but those processes
// exit on their own.
const serverScript = `#!/bin/sh
if [ "$1" != --help ]; then
	echo $$ >>%[1]s/pids && [ -e %[1]s/open ] || exit 1
fi
exec %[2]s "$@"
`

// Reaper kills one directory's servers when this process exits.
type Reaper struct {
	dir   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// reapers keeps references to all reapers. Otherwise, the garbage collector might close a reaper's pipe, and its servers would be killed.
var reapers sync.Map

// NewReaper starts a reaper for an existing directory, which the reaper finally removes.
func NewReaper(dir string) (*Reaper, error) {
	for _, name := range []string{"open", "pids"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "kopf-controlplane-reaper", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not kill the reaper
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &Reaper{dir: dir, cmd: cmd, stdin: stdin}
	reapers.Store(r, true)
	return r, nil
}

// WrapCommand writes a script that starts a server under the reaper's control, and returns its path. Run the script instead of the binary.
func (r *Reaper) WrapCommand(binary string) (string, error) {
	path := filepath.Join(r.dir, "start-"+filepath.Base(binary))
	script := fmt.Sprintf(serverScript, quote(r.dir), quote(binary))
	// If a different goroutine forks while the file is open for writing, the child holds it open for a moment as well, and starting the
	// script fails with "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// Stop kills the servers, removes the directory and waits until this is done.
func (r *Reaper) Stop() {
	_ = r.stdin.Close()
	_ = r.cmd.Wait()
	reapers.Delete(r)
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
