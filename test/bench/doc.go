// Package bench compares operators that use the library with a hand-written reconciler, on a real API server. It contains
// only tests.
//
//	make bench                                            # all scenarios, about twenty minutes on two cores
//	make bench BENCHFLAGS=-quick                          # small sizes, about two minutes
//	make bench BENCHFLAGS='-only backlog -rounds 9'       # one scenario with more rounds
//	make bench BENCHFLAGS="-only backlog -profiles $PWD/.cache"   # with profiles, for go tool pprof
//	go test ./test/bench -args -h                         # all flags
//
// Without -measure, as in make test, the package runs one tiny round without a report. The round checks that the
// benchmark works and that the number of writes is as documented.
//
// In each round, both sides run every scenario in turn. They share one API server but use separate namespaces, and their
// order alternates between rounds. Each operator is a separate process with a manager and one controller, so its CPU
// time and heap contain nothing else. The benchmark creates the load. Its own informer observes when an object is
// handled. The scenarios are:
//
//	lifecycle  many creations, then changes, then deletions while an operator runs; with one and three handlers,
//	           with and without finalizer, with and without the status subresource
//	backlog    objects that are created before the operator starts, from its start to the last handled object
//	latency    one change at a time, from the event of the change to the event of the handled object
//	standing   start of an operator when all objects are handled; a new object is created immediately after the
//	           start; then the heap and the activity of the idle operator
//	timers     handled objects with one timer each that changes nothing: first single changes of another object,
//	           then one interval with only the timers; finally timers that change the status
//	daemons    handled objects with one daemon each: their memory, the shutdown of the operator, their deletion
//
// Both sides do the same work. They run the same steps on the same kinds with the same concurrency and the same logger,
// and send the same writes in the same order. The server counts the writes. The plain reconciler (plain_test.go) is
// typed, reads from the cache, and writes merge patches. It stores a hash of the handled spec in an annotation. It
// makes no decision based on a cache that is older than its own last write.
//
// Timers and daemons are compared with the same operator without them, for the same number of handled objects. Where
// durations are compared, both operators run at the same time. The lateness of a timer is measured twice: by its
// function and by the metric of the library.
//
// Run the benchmark on an idle machine. A load that lasts for a whole round affects both sides, so the ratios remain
// valid. A shorter load affects only one side, so check the spread of the ratios. The server, the benchmark and the
// operator share the cores, and the server uses most of the time. CPU time per object is therefore more meaningful than
// objects per second. Neither side has predicates, so both reconcile after their own writes. CPU time includes garbage
// collection, which uses idle cores. For each object, the function of the timers stores about fifty bytes, which count
// toward the measured memory.
//
// The report marks missed budgets, but a missed budget does not fail a test when -measure is given.
package bench
