// Package kopfotel traces the attempts of handlers with OpenTelemetry.
//
//	err := kopf.SetupWithManager(mgr, databases, kopfotel.Tracing(provider))
//
// [Tracing] records a span for each attempt. All attempts of one cycle are in one trace, including attempts after a restart of
// the operator. The id of the trace is derived from the object and the cycle, so nothing is stored on the object.
//
// # Limits
//
//   - If the process ends before it has stored the progress of a cycle, the cycle begins again, with a new trace.
//   - The span of a daemon ends with the daemon, and exporters export only ended spans. Start spans for the steps of a daemon.
//   - The span of an attempt does not contain the later write of its changes.
package kopfotel
