// Package lazylog adds values to loggers when they write their first line. Each reconcile and each call of a handler has loggers of its own, most of which
// write no line or only one. The encoding of their values would be a considerable part of the time of a reconcile.
package lazylog
