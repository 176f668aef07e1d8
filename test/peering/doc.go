// Package peering tries pkg/peering on a real API server: several operators, in this process and in others, beside
// one that plays kopf in Python.
package peering
