// Package python tests the library beside the real kopf, on a real API server.
//
// An operator in Python and one in Go get the same table of handlers, and take over objects from each other after they were killed. At each
// call, their handlers ask the test what to do, so a case is written once for both. `make test-kopf` installs kopf and runs the tests;
// without the flag -kopf they are skipped.
package python
