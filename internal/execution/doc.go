// Package execution invokes handlers. One invocation is one attempt: the package passes a logger to the handler, applies its retry policy,
// logs the outcome and records metrics.
//
//	outcome := execution.Invoke(ctx, execution.Invocation{
//		Kind: "widget", ID: "provision", Reason: "create", Policy: policy, Record: record, Func: provision,
//	})
//
// A panic of a handler becomes an error of its outcome. Invoke waits for the handler, even if the handler ignores the cancellation of its context.
package execution
