// Package peering tests pkg/peering with a real API server: several operators in this and other processes, and a
// simulated operator of kopf in Python.
package peering
