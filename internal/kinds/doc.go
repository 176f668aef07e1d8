// Package kinds takes the kinds of an operator from their discovery to their controllers: it creates their caches, engines and controllers, checks their watches, and
// starts and stops the kinds that come and go.
package kinds
