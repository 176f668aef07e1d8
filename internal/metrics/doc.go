// Package metrics declares the library's Prometheus metrics. They are in controller-runtime's registry, so the manager's metrics endpoint
// serves them.
//
// The labels kind (the controller's name), handler, outcome, reason, ring and state have few values. The metrics of peering and of missing
// permissions are labelled by namespace as well. Two operators for one kind in one process share their time series, unless their
// controllers have different names.
package metrics
