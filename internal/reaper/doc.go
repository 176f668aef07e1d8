// Package reaper kills the servers that a test has started, however the test process exits.
//
//	r, err := reaper.New(dir)
//	if err != nil {
//		return err
//	}
//	defer r.Stop()
//	etcd.Path, err = r.WrapCommand("/usr/local/kubebuilder/bin/etcd")
//
// New starts a shell process that reads from a pipe held by the test process. A script from WrapCommand adds its process id to a list in
// the directory before it turns into the server. The pipe is closed by Stop, or by the kernel when the test process is gone. That wakes the
// reaper, which kills the listed servers, removes the directory and exits. So it works after Ctrl-C, a panic, a timeout of go test, and
// even SIGKILL.
//
// A server's command line must contain the directory's name. The reaper spares all other processes, because the system may have reused the
// id of a server that has exited. The package needs /bin/sh and a directory that programs can be run from. It only works on Linux and
// macOS, and does nothing elsewhere.
package reaper
