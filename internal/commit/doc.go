// Package commit computes what a reconcile writes.
//
// A [Builder] turns a cause, the records and the patches of handlers into a [Transaction]: the changes of handlers, and the framework's part, that is
// records, last-handled configuration and pin. It neither reads from nor writes to the API server.
package commit
