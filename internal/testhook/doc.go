// Package testhook gives package kopftest access to unexported parts of package kopf, without a public API for them.
//
//	testhook.BindCall(req, &invoke.Request{ID: "provision", Notify: recordEvent})
//	err := testhook.FinishCall(req, provision(ctx, req))
//
// Package kopf sets [BindCall] and [FinishCall]. The test kit calls them for the requests that it creates, so that a handler sees the same request as in
// an operator. An [Observer] in the context of an operator is called for each handler call, and can wrap the reconcilers. A manager that implements
// [AdmissionHost] decides how admission handlers are served.
//
// Without an observer, the overhead is one context lookup for each handler call. [BindCall] and [FinishCall] panic if their argument is not a
// request of package kopf.
package testhook
