// Package guide compiles and runs what docs/ shows: operators and their tests on a real API server and on virtual time, and
// docs/getting-started.md, step by step.
package guide
