// Package explore runs small operators under all faults derived from a reference run, on a simulated API server and in
// virtual time. It contains only tests. Package internal/explore creates the plans, and kopftest runs them.
//
//	make explore                                                                     # all plans of all scenarios
//	go test ./test/simulation/explore                                                # a fixed part of them
//	go test ./test/simulation/explore -run TestExplore -plan='create: crash-after@3' # one plan
package explore
