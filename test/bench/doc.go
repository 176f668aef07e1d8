// Package bench measures operators that use the library against a hand-written reconciler, on a real API server. It
// contains only tests.
//
//	make bench                                            # everything, about twenty minutes on two cores
//	make bench BENCHFLAGS=-quick                          # two minutes, for the order of magnitude
//	make bench BENCHFLAGS='-only backlog -rounds 9'       # one scenario with more rounds
//	make bench BENCHFLAGS="-only backlog -profiles $PWD/.cache"   # with profiles, for go tool pprof
//	go test ./test/bench -args -h                         # all flags
//
// Without -measure, as in make test, one tiny round without a report checks that the benchmark works, and that the
// number of writes is the documented one.
//
// In each round both sides run every scenario in turn, on one API server, in separate namespaces; their order changes
// from round to round. An operator is a separate process, this test binary, with only a manager and one controller, so
// that its CPU time and its heap are those of the operator alone. The benchmark creates the load, and observes with its
// own informer when an object is handled.
//
//	life      many creations, then changes, then deletions; for one and three handlers, with
//	          and without finalizer, with and without the status subresource; each operator is warm
//	backlog   objects that were created without an operator, from its start to the last object
//	latency   one change at a time, from the event of the change to the event of the result
//	standing  a start over handled objects, and a new one at that moment; the heap beyond that of a process
//	          with the informer only; some idle seconds
//	timers    handled objects with a timer each that changes nothing: single changes beside them, then
//	          an interval of the timers alone; and some that change the status
//	daemons   handled objects with a daemon each: their memory, the end of the operator, their deletion
//
// Both sides do the same: the same steps on the same kinds, with the same concurrency, the same writes in the same
// order, and the same logger. The number of writes is that of the server. The plain reconciler (plain_test.go) is
// typed, reads from the cache, writes merge patches of its changes, stores a hash of the handled spec in an annotation,
// and does not use a cache that is older than its own last write.
//
// Timers and daemons are compared with the same operator without them, which runs over as many handled objects: at the
// same time in another process, where times are compared. The lateness of a timer is measured twice: by its function,
// and by the metric of the library.
//
// Run the benchmark on an idle machine. A disturbance of a whole round cancels out in its ratios, and a shorter one
// does not: check the spread of a ratio. Server, load and operator share the cores, and the server uses most of the
// time, so CPU time per object is more meaningful than objects per second. Neither side has predicates, so both
// reconcile after their own writes. CPU time includes garbage collection, which uses idle cores. The function of the
// timers stores about fifty bytes for each object, which count in their memory.
//
// The report shows missed budgets, but these fail no test.
package bench
