// Package testhook is how the test kit gets at what requests keep to themselves.
//
//	bridge.Attach(req, &engine.Call{ID: "provision", Notify: note})
//	err := bridge.Conclude(req, provision(ctx, req))
//
// # Flow
//
// The facade fills in the functions when it is loaded; the kit calls them for requests that it has made by hand, so
// that handlers which are called alone are told, and asked, the same as in an operator. An [Observer] in the context of
// an operator learns of each call of each handler. A manager that is a [Host] decides how admission handlers are served.
//
// # Guarantees
//
// An operator without an observer pays one look into the context for each call of a handler.
//
// # Assumptions
//
// The requests are those of package kopf.
//
// # Caveats
//
// Nothing here is for users: what they need of it is in package kopftest.
//
// # Errors
//
// What is no request panics: that is a defect of the kit.
package testhook
