// Package lazylog adds values to a logger only when it writes its first line. Every reconcile and every handler call gets its own loggers,
// and most of them write one line or none, so encoding all their values up front would take a considerable part of a reconcile.
package lazylog
