// Package metrics declares the Prometheus metrics of the library. They are registered with the registry of controller-runtime, so the metrics
// endpoint of the manager serves them.
//
// The labels kind (the name of the controller), handler, outcome, reason, ring and state have few values. The metrics of peering and of missing
// permissions also have a label for the namespace. Two operators for one kind in one process share their time series, unless their controllers have different names.
package metrics
