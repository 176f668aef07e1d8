// Package kopftest tests handlers: one alone, a whole operator in memory and in virtual time, or a whole operator on a real API
// server.
//
//	func TestABusyCloudIsWaitedFor(t *testing.T) {
//		got := kopftest.Invoke(t, provision, &v1.Database{Spec: v1.DatabaseSpec{Size: 3}})
//		if got.Outcome.Delay != 10*time.Second {
//			t.Errorf("it is called again after %s", got.Outcome.Delay)
//		}
//	}
//
// # Flow
//
// From small to large:
//
//   - [Invoke] calls one handler for one object, and returns what has come of it: the outcome, the changes, results, events,
//     conditions, sub-handlers, and what was written with the client. [Admit] does it for admission handlers.
//   - [Cycle] runs an operator in memory on given objects, at a given time, with given [Fault]s, and reports calls, writes, events,
//     records, and when it would go on: a row of a table for each case.
//   - [Check] tells a little story again and again, with a crash at each write, conflicts, lost answers, and shutdowns, and
//     finds handlers that do not stand that. [CheckMutation] does it for mutating admission handlers.
//   - [Explore] runs such a story under every fault that follows from a first run: besides crashes and lost answers, restarts with old lists, and
//     events that the operator does not see. It returns the plan of each violation, to be run again.
//   - [Walk] gives an object random specs that fit the schema of its CRD, one after the other. Each state must be the same as after a creation with that
//     spec, and the deletion must leave nothing behind.
//   - [Cluster.Run] runs an operator for as long as a test, on [Memory] or on an [Environment]; [Operator.RunUntilQuiet] waits until it
//     is done; [Operator.Stop] and a new one is a restart, [Operator.Crash] a death.
//   - [HaveHandled], [HaveInProgress], [HaveFinalizer] and [HaveCondition] are matchers of gomega, for the objects of any of these.
//
// # Virtual time
//
// On a cluster in memory, a test may put itself into a bubble of testing/synctest. There the clock starts at midnight UTC of
// 2000-01-01, and jumps when everybody waits: a retry in a day takes no time at all. [Cycle], [Check], [Explore] and [Walk] make their own bubble.
//
//	synctest.Test(t, func(t *testing.T) {
//		cluster := kopftest.Memory(t, kopftest.Objects(db))
//		operator := cluster.Run(t, databases())
//		operator.RunUntilQuiet(t)
//	})
//
// A real server lives in real time: make delays settings of the operator, and short in tests.
//
// # Guarantees
//
// The handlers are called by the engine that calls them in production; only [Invoke] and [Admit] call them directly. The cluster in memory
// is held against a real API server by the tests of the library. What [Check] finds was seen: it has no false alarms but
// those of states that differ by themselves, see [Scenario]'s Ignore.
//
// # Assumptions
//
// The test is one of package testing; with Ginkgo, pass GinkgoTB(). [Cycle], [Check], [Explore] and [Walk] need a *testing.T, as bubbles do.
//
// # Caveats
//
// A cluster in memory has schemas only of [CRDs], and those without CEL rules. Built-in kinds have neither defaults nor
// validation. A kind in two versions is two kinds. Namespaces need not exist. The only subresource is status, the only fields in selectors are
// metadata.name and metadata.namespace. It has no admission (handlers of operators for it are not called, and need no certificates), no access
// control, no controllers, no garbage collection. What depends on these is to be tested in an [Environment].
//
// The servers of an [Environment] end with the process of the test, however that ends, on Linux and macOS only.
//
// [Check] crashes the operator at its writes, not between two statements of a handler: what a handler does outside of the
// cluster is as good as done. A handler that never ends, whatever its context says, cannot be stopped: the test then ends with a panic
// that names it.
//
// Binaries that import this package carry envtest and gomega: it is for tests. It takes the pause after errors away from Kubernetes' libraries
// (utilruntime.ErrorHandlers), which in a bubble would last for years.
//
// # Errors
//
// What cannot go on ends the test with a message that begins with "kopftest:".
package kopftest
