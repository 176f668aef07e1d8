// Package commit computes what a reconcile writes.
//
// A [Builder] converts a cause, the records and the handler patches to a [Transaction]. The transaction contains the changes of handlers and the
// framework's part: records, last-handled configuration and pin. The package sends no requests to the API server.
package commit
