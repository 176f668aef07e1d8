// Package reaper kills the servers that a test has started when the test process ends.
//
//	r, err := reaper.New(dir)
//	if err != nil {
//		return err
//	}
//	defer r.Stop()
//	etcd.Path, err = r.WrapCommand("/usr/local/kubebuilder/bin/etcd")
//
// New starts a shell process that reads from a pipe of this process. The scripts of WrapCommand write their process id to a list in the
// directory, and then execute the server. Stop, or the end of this process, closes the pipe. The reaper then kills the servers of
// the list, removes the directory, and exits. This works for every end of the process, such as Ctrl-C, a panic, a
// timeout of go test, or SIGKILL.
//
// The command line of a server must contain the name of the directory. The reaper kills only such processes, because
// the system may have assigned the id of an ended server to another process. The package needs /bin/sh, and a
// directory from which programs can be executed. On systems other than Linux and macOS, it does nothing.
package reaper
