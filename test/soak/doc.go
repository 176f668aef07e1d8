// Package soak runs operators for hours on a real API server while faults are injected, and checks that each
// handler is called as often as due. It also checks that memory and goroutines do not grow. It contains only tests.
//
//	make soak HOURS=24                    # the full run; prints a report every five minutes
//	make soak HOURS=0.1 SOAKFLAGS=-seed=7 # six minutes with the fault schedule of seed 7
//
// Without -hours, as in make test, each fault is injected once, which takes less than a minute.
//
// # Setup
//
// The test process runs the control plane, the drivers that create, edit and delete objects, a proxy between the
// operators and the API server, and the ledger in which each handler records its calls. The operators are child
// processes in two groups, each with a namespace of its own:
//
//   - The steady group is one process that is never restarted. Its API requests meet lost responses, 503s and watches
//     that are cut, expired or silent. Heap and goroutines are measured here.
//   - The replaced group is two processes with leader election. They meet the same faults and are also terminated,
//     killed and suspended, for less and for more than the duration of the lease.
//
// # Checks
//
// A driver edits an object only after the edit before it was handled, so that each cause is due exactly once. In the
// steady group each due call succeeds exactly once. In the replaced group a call may be repeated only
// if a process was ended or suspended around the first one. Each object has one running daemon, and its timer runs
// at its interval.
package soak
