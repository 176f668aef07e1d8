// Package invoke calls handlers. One invocation is one attempt: the package passes a logger to the handler, applies its retry policy,
// logs the outcome and records metrics.
//
//	view := &invoke.View{Object: obj, Reason: "create", After: content}
//	outcome := invoke.HandlerAttempt{Kind: "widget", ID: "provision", Handler: &handler, View: view, Record: record}.Run(ctx)
//
// A [View] is the state of an object that handlers receive; each attempt gets its own [Request] with copies. [Attempt] calls a function that has no
// object, such as a startup function. [WithLogEvents] posts the log lines of a handler as Events.
//
// A panic of a handler becomes an error of its outcome. Attempt waits for the handler, even if the handler ignores the cancellation of its context.
package invoke
