// Package metrics declares the Prometheus metrics of the library. They are registered with the registry of controller-runtime, so the metrics
// endpoint of the manager serves them.
//
// The labels have few values: the name of the controller of a kind, the id of a handler, an outcome or a reason. Two operators for one kind
// in one process share their time series, unless their controllers have different names.
package metrics
