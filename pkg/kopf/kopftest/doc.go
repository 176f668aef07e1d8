// Package kopftest helps to test handlers and operators. A test can call one handler, run an operator in memory and in virtual time, or run
// an operator against a real API server.
//
//	func TestProvision_RetriesWhileTheCloudIsBusy(t *testing.T) {
//		got := kopftest.Invoke(t, provision, &v1.Database{Spec: v1.DatabaseSpec{Size: 3}})
//		if got.Outcome.Delay != 10*time.Second {
//			t.Errorf("delay %s, want 10s", got.Outcome.Delay)
//		}
//	}
//
// # Levels of tests
//
//   - [Invoke] calls one handler for one object. It returns the outcome, the changes, the Events, the sub-handlers, and the client's
//     requests. [Admit] calls one admission handler.
//   - [Cycle] runs an operator in memory for given objects, at a given time, with given faults. It reports the handler calls, the writes,
//     the Events, the stored progress, and the next requeue. Use it for table tests.
//   - [Check] repeats a [Scenario] with crashes, conflicts, lost responses and shutdowns, and compares the results. It finds handlers that
//     are not idempotent. [CheckMutation] finds mutating admission handlers that are not idempotent.
//   - [Explore] repeats a scenario with more faults, including restarts with stale lists, and delayed watch events. Each failure contains a
//     plan that reproduces it.
//   - [Walk] keeps replacing an object's spec with random ones. It finds handlers whose result depends on earlier specs, and objects that
//     are left behind after the deletion.
//   - [Upgrade] replaces one version of an operator with another at each write, and rolls back. It finds handlers that are called again, and
//     what the old version leaves behind.
//   - [Cluster.Run] runs an operator during a test, on [Memory] or on an [Environment]. [Operator.RunUntilQuiet] waits until the operator
//     has no pending work. [Operator.Stop] and [Operator.Crash] stop the operator.
//   - [HaveHandled], [HaveInProgress], [HaveFinalizer] and [HaveCondition] are Gomega matchers for objects.
//
// # Virtual time
//
// With a cluster in memory, a test can run in a testing/synctest bubble. The bubble's clock starts at midnight UTC on 2000-01-01 (see
// [Memory]). It advances when all goroutines are waiting, so a retry after a day takes almost no real time. [Cycle], [Check],
// [Explore], [Walk] and [Upgrade] create a bubble themselves.
//
//	synctest.Test(t, func(t *testing.T) {
//		cluster := kopftest.Memory(t, kopftest.Objects(db))
//		operator := cluster.Run(t, databases())
//		operator.RunUntilQuiet(t)
//	})
//
// An [Environment] runs in real time, so make delays configurable and use short ones in its tests.
//
// # Limits of a cluster in memory
//
// We test the cluster in memory against a real API server. It differs in these points:
//
//   - Only [CRDs] have schemas, and CEL rules aren't checked. Built-in objects must fit their Go types, but only their metadata is
//     validated, and few of their fields have defaults.
//   - Different versions of a kind are separate kinds.
//   - Objects can be in namespaces that don't exist.
//   - The only subresource is status. Field selectors support only metadata.name and metadata.namespace, and some fields of Events.
//   - Admission, access control, controllers and the garbage collector are missing.
//
// Use an [Environment] for tests that depend on one of these.
//
// # Caveats
//
// With package testing, pass your *testing.T, and with Ginkgo, pass GinkgoTB(). [Cycle], [Check], [Explore], [Walk] and [Upgrade]
// need a *testing.T, because testing/synctest needs one. If a precondition isn't met, the test fails with a message that starts with
// "kopftest:".
//
// [Check], [Explore] and [Upgrade] crash the operator at its writes, not between two statements of a handler. A handler that ignores its context can't
// be stopped. If it doesn't return within 48 hours of virtual time, the test panics with the handler's name.
//
// The package imports envtest and Gomega, so import it only in tests. It removes the rate limit of utilruntime.ErrorHandlers, which would
// block operators in a bubble for years of virtual time.
package kopftest
