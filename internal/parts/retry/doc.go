// Package retry reads and answers requests to call handlers again.
//
// A user requests a call with the annotation <prefix>/retry.<id>, whose value may be any text. The operator answers with the annotation
// <prefix>/retried.<id>, see [Answer]. It removes the request in the same write, once the handler has succeeded or failed permanently.
package retry
