// Package kinds takes an operator's kinds from their discovery to their controllers. It creates their caches, engines and controllers,
// checks their watches, and starts and stops the kinds that come and go.
//
// Before a kind starts, the package finds out whether the API server serves it, and whether its verbs and schema fit the declarations.
package kinds
