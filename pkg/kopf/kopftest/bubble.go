package kopftest

import utilruntime "k8s.io/apimachinery/pkg/util/runtime"

// The second error handler of Kubernetes' libraries pauses after each error, for a millisecond since the last one of the process. In a
// bubble that is years ahead, as the last one has another clock: what would tell of a failed watch would sleep, and the operator could not be
// stopped. The first one, which logs, stays.
func init() {
	//nolint:reassign // it is a variable so that programs can do so
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:min(1, len(utilruntime.ErrorHandlers))]
}
