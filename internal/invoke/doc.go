// Package invoke calls handlers. One invocation is one attempt: the package passes a logger to the handler, applies its retry policy, logs
// the outcome and records metrics.
//
//	view := &invoke.View{Object: obj, Reason: "create", After: content}
//	outcome := invoke.HandlerAttempt{Kind: "widget", ID: "provision", Handler: &handler, View: view, Record: record}.Run(ctx)
//
// A [View] is the state of an object that handlers receive. Each attempt gets its own [Request] with copies. [Attempt] is for functions
// without an object, such as startup functions. [WithLogEvents] posts a handler's log lines as Events. A [Registry] stores handlers by id.
//
// If a handler panics, its outcome has an error. Attempt waits for the handler, even if the handler ignores that its context is cancelled.
package invoke
