// Package soak runs operators for hours on a real API server, injects faults, and checks that no handler call
// is missing or repeated. It also checks that memory and goroutines do not grow. It contains only tests.
//
//	make soak HOURS=24                    # the full run, with a report every five minutes
//	make soak HOURS=0.1 SOAKFLAGS=-seed=7 # six minutes with the fault schedule of seed 7
//
// Without -hours, as in make test, the test injects each fault once, which takes less than a minute.
//
// # Setup
//
// The test process runs the control plane, a proxy between the operators and the API server, drivers and a ledger. The
// drivers create, edit and delete objects. Each handler records its calls in the ledger. The operators are child
// processes in two groups, each with its own namespace:
//
//   - The steady group is one process that is never restarted. The proxy injects lost responses, 503s and watches that
//     are cut, expired or silent. The test measures heap and goroutines of this process.
//   - The replaced group is two processes with leader election. The proxy injects the same faults. The test also
//     terminates, kills and suspends the processes, for less and for more than the duration of the lease.
//
// # Checks
//
// A driver edits an object only after the previous edit was handled, so that each cause is due exactly once. In the
// steady group, each due call succeeds exactly once. In the replaced group, the operator may repeat a call only if a
// process was ended or suspended near the time of the first call. Each object has one running daemon, and its timer
// runs at its interval.
package soak
