// Package kinds takes an operator's kinds from their discovery to their controllers. It creates their caches, engines and controllers,
// checks their watches, and starts and stops the kinds that come and go.
package kinds
