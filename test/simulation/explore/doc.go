// Package explore runs small operators under all faults that follow from a reference run, on a simulated API server and in virtual
// time: nothing in it but tests. Package internal/explore makes the plans, and kopftest runs them.
//
//	make explore                                                                     # every plan of every scenario
//	go test ./test/simulation/explore                                                # a fixed part of them
//	go test ./test/simulation/explore -run TestExplore -plan='create: crash-after@3' # this one again
package explore
