package kopftest

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// The second error handler of k8s.io/apimachinery limits errors to one per millisecond. It waits until a millisecond after the last error of the
// process. In a bubble, the time of that error may be years ahead, so a failed watch would block the operator. The first error handler, which logs,
// stays.
func init() {
	//nolint:reassign // it is a variable so that programs can do so
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:min(1, len(utilruntime.ErrorHandlers))]
}
