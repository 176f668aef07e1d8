// Package conformance sends the same requests to the API server in memory and to a real one, and compares the answers:
// nothing in it but tests. What the two differ in is in the documentation of internal/apiserver, or a bug of it.
package conformance
