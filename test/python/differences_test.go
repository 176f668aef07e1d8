package python

import "strings"

// A difference between the library and kopf is kept, for the reason. The tests expect it.
type difference struct {
	name   string
	reason string
	holds  func(from, to string, one scenario, h handlerPart) bool
}

var resumedAgain = difference{
	name: "a resume handler that kopf has finished is called again",
	reason: "each process in Go calls its resume handlers once for each object, because they restore what the process needs in memory. kopf skips those " +
		"that its predecessor finished in an unfinished cycle. The sub-handlers of an unfinished handler for creations and resumes are not called again",
	holds: func(_, to string, one scenario, h handlerPart) bool {
		return to == ours && (one.cause == "resume" || one.cause == "create-resume" && !strings.Contains(h.call, "/"))
	},
}

var extrasStay = difference{
	name:   "kopf leaves the pin and the stamp",
	reason: "it does not know these annotations, and ignores them because of their prefix. A new cycle of the operator in Go replaces the pin",
	holds:  func(from, to string, _ scenario, _ handlerPart) bool { return from == ours && to != ours },
}

// differences are all of them.
var differences = []difference{resumedAgain, extrasStay}
