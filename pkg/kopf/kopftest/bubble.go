package kopftest

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// init removes all error handlers of k8s.io/apimachinery except for the first one, which logs errors. The second one limits errors to one
// per millisecond, and therefore waits until a millisecond after the last error in the process. In a bubble, that time may be years ahead,
// so a failed watch would block the operator.
func init() {
	//nolint:reassign // ErrorHandlers is meant to be replaced
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:min(1, len(utilruntime.ErrorHandlers))]
}
