// Package guide compiles and runs the code of docs/: operators and their tests on a real API server and in virtual
// time, and docs/getting-started.md step by step.
package guide
