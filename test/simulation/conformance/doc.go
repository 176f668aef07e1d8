// Package conformance sends the same requests to the API server in memory and to a real one, and compares the
// responses. It contains only tests. The documentation of internal/apiserver lists the known differences. All other
// differences are bugs.
package conformance
