// Package bench measures operators made with the library against a reconciler written by hand, on a real
// API server. It has no code to import: everything is in its tests.
//
//	make bench                                            # all of it, some twenty minutes on two cores
//	make bench BENCHFLAGS=-quick                          # two minutes, to see the order of magnitude
//	make bench BENCHFLAGS='-only backlog -rounds 9'       # one question, asked more often
//	make bench BENCHFLAGS="-only backlog -profiles $PWD/.cache"   # with profiles, for go tool pprof
//	go test ./test/bench -args -h                         # all flags
//
// Without -measure, as in make test, there is one tiny round without a report: it shows that the benchmark
// still works, and that the writes are as many as promised.
//
// # Flow
//
// In each round every scenario is run by both sides in turn, on one API server, in namespaces of their own;
// who goes first changes from round to round. An operator is a process of its own, this test binary started
// again, with nothing in it but a manager and one controller: so its CPU time and its heap are those of the
// operator alone. The benchmark makes the load, and sees by an informer of its own when an object is handled.
//
//	life      a storm of creations, then of changes, then of deletions; for one and three handlers, with
//	          and without finalizer, with and without the status subresource; each operator is warm
//	backlog   objects that were created while there was no operator, from its start to the last one
//	latency   one change at a time, from the event that shows it to the one that shows it handled
//	standing  a start over handled objects, and a new one at that moment; the heap beyond that of a process
//	          with the informer only; some seconds of rest
//	timers    handled objects with a timer each that changes nothing: single changes beside them, then
//	          an interval of the timers alone; and some that change the status
//	daemons   handled objects with a daemon each: their memory, the end of the operator, their deletion
//
// # Guarantees
//
// Both sides do the same: the same steps on the same kinds, as many at a time, the same writes in the same
// order, the same logger. Writes are those that the server has counted. The plain reconciler is typed, reads
// from the cache, writes merge patches of what has changed, knows by a hash in an annotation what it has
// handled, and does not act on a cache that is older than its own last write. See plain_test.go.
// Nothing is written to the repository.
//
// Timers and daemons are measured beside the same operator without them, which runs over as many handled objects: at the
// same time, in another process, where times are compared. How late a timer is was taken twice: by its function,
// which knows when it was told to be called, and how long after its last return; and by the metric of the library.
//
// # Assumptions
//
// The machine has little else to do. What slows down a whole round cancels out in its ratios, what comes and
// goes does not: look at the spread before you believe a ratio.
//
// # Caveats
//
// Server, load and operator share the cores, and most of the time is the server's: objects per second say
// little about the operator, CPU time per object says more. Neither side has predicates, so both are woken
// by their own writes. CPU time includes garbage collection, which uses cores that have nothing else to do.
//
// The function of the timers takes a note of some fifty bytes for each object, which counts in their memory.
//
// # Errors
//
// A missed budget is told in the report and fails nothing: times are measured here, not asserted.
package bench
