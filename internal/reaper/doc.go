// Package reaper sees to it that the servers which a test starts do not outlive it.
//
//	g, err := guard.New(dir)
//	if err != nil {
//		return err
//	}
//	defer g.Release()
//	etcd.Path, err = g.Wrap("/usr/local/kubebuilder/bin/etcd")
//
// # Flow
//
// New starts a small sh that reads from a pipe of this process. Programs that Wrap returns put themselves on a list in
// the folder, and become the servers. When the pipe breaks, by Release or by the end of this process, the guard kills
// the servers on the list, removes the folder, and ends.
//
// # Guarantees
//
// On Linux and macOS nothing outlives this process, however it ends: Ctrl-C, a panic, the timeout of go test, SIGKILL, also
// while servers are starting. What has got the number of a server that is gone is spared.
//
// # Assumptions
//
// The servers name the folder in their command lines. There is /bin/sh, and programs may run from the folder.
//
// # Caveats
//
// On other systems there is no guard: servers whose process ends badly remain.
//
// # Errors
//
// Those of the files in the folder, and of the start of sh.
package reaper
