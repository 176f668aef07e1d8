//go:build linux || darwin

package reaper

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

// reaperScript waits until the pipe on its standard input is closed: by Stop, or by the end of the test process. It then kills the
// processes of the list whose command line contains the directory.
//
// The script removes the file "open" before it reads the list. A server first writes its id to the list and then checks for this
// file. So every server is either in the list or does not start.
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

// serverScript starts a server with exec, which keeps the process id. envtest also runs the binaries with --help.
// These processes end without the reaper.
const serverScript = `#!/bin/sh
if [ "$1" != --help ]; then
	echo $$ >>%[1]s/pids && [ -e %[1]s/open ] || exit 1
fi
exec %[2]s "$@"
`

// Reaper kills the servers of one directory when this process ends.
type Reaper struct {
	dir   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// reapers keeps references to all reapers. Without them, the garbage collector closes the pipe of an unreferenced reaper, which kills
// its servers.
var reapers sync.Map

// New starts a reaper for an existing directory. The reaper removes the directory at the end.
func New(dir string) (*Reaper, error) {
	for _, name := range []string{"open", "pids"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "kopf-controlplane-reaper", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end the reaper
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

// WrapCommand writes a script that starts a server under the reaper, and returns its path. Start the script instead of the binary.
func (r *Reaper) WrapCommand(binary string) (string, error) {
	path := filepath.Join(r.dir, "start-"+filepath.Base(binary))
	script := fmt.Sprintf(serverScript, quote(r.dir), quote(binary))
	// A process that another goroutine forks while the file is open for writing also holds it open for a moment. The start of the
	// script then fails with "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// Stop kills the servers, removes the directory, and waits until both are done.
func (r *Reaper) Stop() {
	_ = r.stdin.Close()
	_ = r.cmd.Wait()
	reapers.Delete(r)
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
