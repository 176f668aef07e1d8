// Package monitoring contains only tests. They check the alerts in config/prometheus, the dashboard in config/grafana, and
// docs/monitoring.md with the query engine of Prometheus. The package is a module of its own, so that operators do not depend
// on Prometheus.
//
// "go test" does not notice changes outside of the module, and prints the cached result. After such changes, use "go test
// -count=1". "make test" always runs the tests.
//
// The tests compare each expression with the metrics of the code: the name, the labels and the values of labels. They also
// evaluate each query of the dashboard, and each alert with series that must trigger the alert and with series that must not.
// Another test reads the status page of an operator through the filter of controller-runtime's metrics server, which needs the
// libraries of the API server.
package monitoring
