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

// The guard waits for the end of its input: the process that holds the other end has closed it in
// Stop, or is gone. The guard then kills the servers that put themselves on the list, and none
// that merely got the number of one of them: theirs is the folder in the command line.
//
// It takes the file "open" away before it reads the list, and a server looks for that file after
// it has put itself on the list. So there is no moment at which a server can slip through.
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
until rm -rf "$1" || [ $attempt = 30 ]; do # what dies may still be writing
	attempt=$((attempt + 1))
	sleep 0.1 || sleep 1
done
`

// A server is started through this script, which becomes the server: the number stays the same.
// envtest also asks the binaries for --help, and that is nothing to watch over.
const serverScript = `#!/bin/sh
if [ "$1" != --help ]; then
	echo $$ >>%[1]s/pids && [ -e %[1]s/open ] || exit 1
fi
exec %[2]s "$@"
`

// A Guard watches over the servers of one folder.
type Reaper struct {
	dir   string
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// A pipe that is garbage-collected is closed, and the guard would strike. So the guards are held
// here: a control plane nobody refers to any more keeps running until the process ends.
var reapers sync.Map

// New starts a guard for a folder with nothing in it that is to stay.
func New(dir string) (*Reaper, error) {
	for _, name := range []string{"open", "pids"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "kopf-controlplane-guard", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not to be hit by Ctrl-C
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &Reaper{dir: dir, cmd: cmd, stdin: stdin}
	reapers.Store(g, true)
	return g, nil
}

// Wrap returns the program to start in place of this one, for the guard to know of it.
func (g *Reaper) WrapCommand(binary string) (string, error) {
	path := filepath.Join(g.dir, "start-"+filepath.Base(binary))
	script := fmt.Sprintf(serverScript, quote(g.dir), quote(binary))
	// Were another goroutine to fork while the file is open for writing, then its child would
	// hold it open too for a moment, and the script could not be started: "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return path, os.WriteFile(path, []byte(script), 0o700)
}

// Release has the guard do its work, and waits for that.
func (g *Reaper) Stop() {
	_ = g.stdin.Close()
	_ = g.cmd.Wait()
	reapers.Delete(g)
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
