// Package operator runs an operator as an ordered list of parts, such as the check of the permissions, the peering, and the controllers.
//
//	err := operator.Run(ctx, log, parts)
//
// [Run] opens the parts in their order, so a part may use what earlier parts have opened. Then all of them run at the same time. At the end, they are closed in reverse
// order. If a part fails, hangs or panics, the error or the log names it.
//
// Parts share only what this package has: a [Set] of what is running, [Units] for what comes and goes, a [Gate] for what must wait, and a [Reservation] of what two
// operators must not share.
package operator
