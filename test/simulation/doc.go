// Package simulation runs whole operators on a simulated API server in virtual time, with thousands of random
// scenarios. It contains only tests. Package test/e2e runs hundreds of the same scenarios on a real API server.
//
//	go test ./test/simulation -simulations=5000     # more scenarios
//	go test ./test/simulation -seed=17 -v           # one scenario, with its log
//
// The race detector makes simulations about seven times slower. With the race detector, the tests
// run fewer seeds, and the largest tests are skipped. "make test" runs the tests with and without the race detector.
package simulation
