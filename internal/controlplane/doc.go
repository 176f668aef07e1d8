// Package controlplane runs a real kube-apiserver and etcd on this machine, for the tests, the demo and the examples of this repository.
// Users' tests have package kopftest instead. Both packages rely on a [Reaper] to stop the servers.
//
//	cp, err := controlplane.Start(controlplane.Options{
//		CRDPaths: []string{"config/crd"},
//		Audit:    true,
//	})
//	if err != nil {
//		return err // describes how to fix the problem
//	}
//	defer cp.Stop()
//
//	before, err := cp.Writes(ctx, "widgets", "status")
//	tail := cp.AuditSinceStart()
//	... // run an operator with cp.Config
//	after, err := cp.Writes(ctx, "widgets", "status")
//	fmt.Println(after.Since(before)) // map[PATCH 200:1]
//	requests, err := tail.Next()     // the write requests, with bodies
//
// # Concepts
//
// Start creates a temporary directory, and starts the reaper, etcd and kube-apiserver. It then installs the CRDs and, if asked to, starts
// kube-controller-manager. Stop makes the reaper kill the servers and remove the directory. Each control plane has its own ports, data and
// certificates, so several can run at the same time.
//
// On Linux and macOS, the reaper even stops the servers if this process exits without Stop: after Ctrl-C, a panic, a timeout of go test, or
// SIGKILL, and even during Start.
//
// # The reaper
//
// A [Reaper] kills the servers that a test has started, however the test process exits:
//
//	r, err := controlplane.NewReaper(dir)
//	if err != nil {
//		return err
//	}
//	defer r.Stop()
//	etcd.Path, err = r.WrapCommand("/usr/local/kubebuilder/bin/etcd")
//
// NewReaper starts a shell process that reads from a pipe held by the test process. A script from WrapCommand adds its process id to a list
// in the directory before it turns into the server. The pipe is closed by Stop, or by the kernel when the test process is gone. That wakes
// the reaper, which kills the listed servers, removes the directory and exits.
//
// A server's command line must contain the directory's name. The reaper spares all other processes, because the system may have reused the
// id of a server that has exited.
//
// # Requirements
//
// "make controlplane" and "make controller-manager" build the binaries. The environment variable KUBEBUILDER_ASSETS can point to a
// different directory with these binaries. The machine needs /bin/sh, and the temporary directory must allow executables. Each server has
// 60 seconds to start, or the time in the environment variable KUBEBUILDER_CONTROLPLANE_START_TIMEOUT.
//
// # Caveats
//
//   - Without Options.Controllers, there is no garbage collection, and namespaces are not removed. Pods never run.
//   - If CRDs are installed after Start, the garbage collector may take half a minute to detect them.
//   - The audit log contains full bodies, even those of Secrets. It grows in the temporary directory until Stop.
//   - On other systems than Linux and macOS, the servers outlive a process that exits without Stop.
package controlplane
