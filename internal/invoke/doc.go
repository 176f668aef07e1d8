// Package invoke calls handlers. One invocation is one attempt: the package passes a logger to the handler, applies its retry policy,
// logs the outcome and records metrics.
//
//	outcome := invoke.Attempt(ctx, invoke.Invocation{
//		Kind: "widget", ID: "provision", Reason: "create", Policy: policy, Record: record, Func: provision,
//	})
//
// A panic of a handler becomes an error of its outcome. Attempt waits for the handler, even if the handler ignores the cancellation of its context.
package invoke
