// Package guide compiles and runs what docs/testing.md shows of tests on a real API server and on
// virtual time.
package guide
