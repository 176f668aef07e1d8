// Package testhook lets package kopftest reach unexported parts of package kopf without a public API.
//
//	testhook.BindCall(req, &invoke.Request{ID: "provision", Notify: recordEvent})
//	err := testhook.FinishCall(req, provision(ctx, req))
//
// Package kopf sets [BindCall] and [FinishCall], and the test kit calls them for the requests it creates, so that handlers see the same
// requests as in an operator. If an operator's context carries an [Observer], it is called for each handler call and can wrap the
// reconcilers. A manager that implements [AdmissionHost] decides how admission handlers are served.
//
// Without an observer, each handler call costs one extra context lookup. [BindCall] and [FinishCall] panic if their argument is not one of
// package kopf's requests.
package testhook
