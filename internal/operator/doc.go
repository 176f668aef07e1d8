// Package operator runs an operator as an ordered list of parts, such as the permission check, peering and the controllers.
//
//	err := operator.Run(ctx, log, parts)
//
// [Run] opens the parts in order, so that each can use what earlier parts have opened. Then it runs all of them at the same time, and
// finally closes them in reverse order. If a part fails, hangs or panics, the error or the log names it.
//
// Parts share nothing but the types of this package: a [Set] of what is running, [Units] for what comes and goes, a [Gate] for what must
// wait, and a [Reservation] of what two operators must not share.
package operator
