package kopftest

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// init removes all error handlers of k8s.io/apimachinery except for the first one. The second error handler limits errors to one per
// millisecond. It waits until one millisecond after the last error of the process. In a bubble, the time of the last error may be years ahead,
// so a failed watch would block the operator. The first error handler, which logs errors, remains.
func init() {
	//nolint:reassign // ErrorHandlers is a variable so that programs can replace it
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:min(1, len(utilruntime.ErrorHandlers))]
}
