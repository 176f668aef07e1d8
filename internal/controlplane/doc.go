// Package controlplane runs a real kube-apiserver with its etcd on this machine, for tests, the
// demo and the examples of this repository. Tests of users have package kopftest for that, which finds the binaries where
// projects of theirs keep them; what becomes of servers when their process is gone is up to package reaper for both.
//
//	cp, err := controlplane.Start(controlplane.Options{
//		CRDPaths: []string{"config/crd"},
//		Audit:    true,
//	})
//	if err != nil {
//		return err // says what to do
//	}
//	defer cp.Stop()
//
//	before, err := cp.Writes(ctx, "widgets", "status")
//	tail := cp.Audit()
//	... // run an operator with cp.Config
//	after, err := cp.Writes(ctx, "widgets", "status")
//	fmt.Println(after.Since(before)) // map[PATCH 200:1]
//	requests, err := tail.Next()     // what was asked of the server, bodies included
//
// # Flow
//
// Start makes a folder in the temporary directory, starts the guard (see package reaper), then etcd, then kube-apiserver, then installs the CRDs, then starts
// kube-controller-manager if it is asked for. Stop closes the pipe: the guard kills the servers,
// removes the folder, and ends.
//
// # Guarantees
//
// On Linux and macOS nothing outlives this process: if it ends without Stop (Ctrl-C, a panic,
// the timeout of go test, SIGKILL, also while Start is still at work), the pipe breaks, and the
// guard does what it does in Stop. Several control planes may run side by side; each has ports,
// data and certificates of its own, and is the only one its guard ever touches.
//
// # Assumptions
//
// The binaries were built by make controlplane, and kube-controller-manager, which few need, by make
// controller-manager; or KUBEBUILDER_ASSETS names a folder with them. There is /bin/sh, and programs
// may run from the temporary directory. A start takes seconds; 60 are allowed for each server, unless
// KUBEBUILDER_CONTROLPLANE_START_TIMEOUT says otherwise.
//
// # Caveats
//
// Without Options.Controllers there are no controllers, as usual with envtest: no garbage collection,
// no end of a namespace's deletion. Pods never run in any case. Of kinds whose CRDs are installed after
// Start, the garbage collector learns within half a minute. The audit log has full bodies, those of
// secrets included, and grows in the temporary directory until Stop. On other systems there is no guard.
//
// # Errors
//
// Every error says what to do about it, or quotes the log of the server that failed. When Start
// fails, nothing is left running.
package controlplane
