// Package reconcilers runs the same reconcilers by controller-runtime's builder and by kopf.FromReconciler, and compares the times of their calls. It
// contains only tests. They run in virtual time on a simulated API server.
package reconcilers
