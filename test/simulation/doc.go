// Package simulation runs whole operators by the thousand on a simulated API server, in virtual time: nothing in
// it but tests. The same scenarios run by the hundred on a real API server, in test/e2e.
//
//	go test ./test/simulation -simulations=5000     # more of them
//	go test ./test/simulation -seed=17 -v           # this one again, with its log
//
// The race detector makes it some seven times slower: with it, tests of many seeds take a part of them, and those that make tens
// of thousands of writes, or build the tests anew, are skipped. "make test" runs it both ways, with and without.
package simulation
