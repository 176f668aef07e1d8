// Package bench compares operators that use the library with two hand-written reconcilers and with kopf, on a real API
// server. It contains only tests.
//
//	make bench                                                   # all scenarios, about 90 minutes on two idle cores
//	make bench BENCHFLAGS=-quick                                 # small sizes, about three minutes
//	make bench BENCHFLAGS='-only lifecycle'                      # one scenario, about eight minutes
//	make bench BENCHFLAGS="-only backlog -profiles $PWD/.cache"   # with profiles, for go tool pprof
//	go test ./test/bench -args -h                                # all flags
//
// Without -measure, as in make test, the package runs one tiny round without a report. The round checks that the
// benchmark works and that the number of writes is as documented.
//
// In each round, all sides run a scenario in turn. The order changes: A B C, B C A, C A B. They share one API server
// but use separate namespaces. Each scenario has its own control plane, except with small sizes. Each operator is a
// separate process with a manager and one controller, so its CPU time and heap contain nothing else. The benchmark
// creates the load. Its own informer observes when an object is handled. The scenarios are:
//
//	lifecycle  2 000 creations, then as many changes, and with a finalizer as many deletions, while an operator runs
//	backlog    2 000 objects that are created before the operator starts
//	latency    changes of different objects for 15 s at 20 and for 15 s at 100 changes a second, from the event of the
//	           change to the event of the handled object
//	restart    start of an operator when all of 10 000 objects are handled, and its memory
//	preview    a preview of 10 000 handled objects, by the library alone
//	size       creations while an operator runs, and its start over them: 1 000, 10 000 and 100 000 objects. -plot FILE
//	           draws their CPU time for each object
//	timers     handled objects with one timer each that changes nothing: 1 000 with an interval of a second, and 10 000
//	           with an interval of 30 seconds
//
// -payload BYTES makes the objects larger, and -lean lets the library use lean caches.
//
// A suffix names the variant: "unstructured", "status" (the kind has the status subresource), "finalizer" and
// "3 handlers". Without it, the objects are typed, and there is one handler. -only selects scenarios by their whole
// names. For example, -only 'lifecycle.*' selects all variants.
//
// All sides do the same work. They run the same steps on the same kinds with the same concurrency and the same logger,
// and send the same writes in the same order. A difference from the documented number of writes fails the test. The plain
// reconciler (plain_test.go) reads from the cache and writes merge patches. It stores the handled essence (spec, labels,
// annotations) in an annotation, like the library. It makes no decision based on a cache that is older than its own last
// write. Its timers use RequeueAfter.
//
// The bare minimum (minimum_test.go) is the least that an operator with these guarantees can do: it reads from the cache
// without copying, builds its patches by hand, asks only for the metadata of the results, and logs nothing.
//
// With -against kopf -kopf FOLDER, another side is kopf (kopf_operator.py): the same steps as handlers in Python, with its
// default settings, except that it posts no Events. Its writes are reported, not checked, and its heap is not measured.
//
// The report consists of Markdown tables for each of the others. Values are medians of the rounds. Ratios divide the
// library by the other of the same round: median (smallest..largest). The columns of the first table are:
//
//	writes                   requests other than GET for each object, as sent by the operator, without reviews of permissions (other / library)
//	reconciles               completed reconciles for each object (other / library)
//	throughput ratio         objects per second, from the first request, or the start of the operator, to the last
//	                         handled object; "-" at a fixed rate
//	CPU ms per object        CPU time of the operator (other / library), until it is idle again
//	CPU ratio                the quotient of these CPU times
//	CPU ratio, normalized        each CPU time divided by the CPU time of kube-apiserver and etcd in the same measurement;
//	                         "-" without /proc, and for timers, which send no requests
//
// For timers, each call counts as one object. The second table contains all other figures: latency, memory, and the
// lateness of timers. The heap is measured after a garbage collection. The heap of an operator without objects is
// subtracted. It contains the cache of the informer, which both sides need.
//
// Run the benchmark on an idle machine. A load that lasts for both samples of a round affects both sides, so the ratios
// remain valid. A load during one sample also slows down the servers, so prefer the normalized ratio, and check the spread.
// The server, the benchmark and the operator share the cores, and the server uses most of the time. CPU time per object
// is therefore more meaningful than throughput. Neither side has predicates, so both reconcile after their own writes.
// CPU time includes garbage collection, which uses idle cores. For each object, the benchmark stores about fifty bytes
// for the lateness of its timer, which count toward the measured memory.
package bench
